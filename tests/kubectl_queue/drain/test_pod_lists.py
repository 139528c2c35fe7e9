"""Which pods a drain reads, with the user's rights."""

from __future__ import annotations

import pytest

from kubectl_queue.drain.pod_lists import PodLists
from kubectl_queue.errors import ForbiddenError
from tests.support.plugin.harness import StoredObjects


def test_who_may_list_no_pods_there_is_told_to_name_a_namespace() -> None:
    paths = ("/api/v1/pods", "/api/v1/namespaces/default/pods")
    client = StoredObjects({}, forbidden=paths)
    lists = PodLists(client, queues=(), namespace=lambda: "default", warn=lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(ForbiddenError, match="; name yours: -n NAMESPACE"):
        list(lists.on_nodes({"vision"}))
