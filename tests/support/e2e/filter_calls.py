"""Filter calls over the wire, as kube-scheduler makes them, of any pod and to any replica."""

from __future__ import annotations

from collections.abc import Mapping

from localcluster.apiserver import Https, caller_context
from tests.support.e2e.api_requests import Object
from tests.support.e2e.sandbox import Sandbox

WRITTEN = "sluice.dev/queue"
NODES = ["node-0", "node-1", "node-2"]


class FilterCaller:
    """Calls filter on one connection. For one thread at a time."""

    def __init__(self, sandbox: Sandbox, *, port: int = 0) -> None:
        """`port`: of one replica; 0: where the cluster's server answers."""
        cluster = sandbox.cluster
        self._namespace = sandbox.namespace
        self._https = Https(port=port or cluster.ports.server, context=caller_context(cluster.layout))

    def __enter__(self) -> FilterCaller:
        self._https.__enter__()
        return self

    def __exit__(self, *of: object) -> None:
        self._https.__exit__(*of)

    def filter(self, name: str, queue: str, *, uid: str) -> Object:
        """The answer to a call about a pod that is described like this."""
        meta = {"namespace": self._namespace, "name": name, "annotations": {WRITTEN: queue}}
        if uid:
            meta["uid"] = uid
        pod = {"metadata": meta, "spec": {"schedulerName": "default-scheduler"}}
        body = {"Pod": pod, "NodeNames": NODES, "Nodes": None}
        answer = self._https.request("POST", "/extender/filter", body)
        assert answer.status == 200, answer.body
        return dict(answer.json())

    def passed(self, uids: Mapping[str, str], queue: str) -> list[str]:
        """The pods that filter lets pass, asked one after another. `uids`: by the pod's name."""
        return [name for name, uid in uids.items() if self.filter(name, queue, uid=uid)["NodeNames"]]
