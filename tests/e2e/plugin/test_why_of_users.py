"""What a user with `edit` in one namespace reads of work that waits, and whom it says to ask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from localcluster.exceptions import SetUpFailed
from queues.well_known import CONTACT
from tests.support.e2e.objects import condition
from tests.support.e2e.wait import until
from tests.support.plugin.sandbox import PluginSandbox, workload

ROLE = "edit"


@pytest.fixture
def sandbox(cluster: LocalCluster) -> Iterator[PluginSandbox]:
    made = PluginSandbox(cluster)
    yield made
    made.clear()


def user(sandbox: PluginSandbox, name: str) -> str:
    """With `edit` in the namespace: no pods elsewhere, and no queues."""
    where = ("-n", sandbox.namespace)
    sandbox.cluster.kubectl("create", "rolebinding", name, f"--clusterrole={ROLE}", f"--user={name}", *where)
    sandbox.direct.may(name, "get", "deployments", "apps")
    return f"--as={name}"


def said_by_pods(sandbox: PluginSandbox) -> list[str]:
    """What each pod with a gate says of why it waits."""
    pods = sandbox.direct.read_pods().values()
    gated = [each for each in pods if each["spec"].get("schedulingGates")]
    return [str(condition(each, "PodScheduled").get("message")) for each in gated]


def say(sandbox: PluginSandbox, text: str) -> bool:
    """Whether both of them say this."""
    return said_by_pods(sandbox) == [text, text]


def annotate(sandbox: PluginSandbox, queue: str, contact: str) -> None:
    sandbox.cluster.kubectl("annotate", "--overwrite", "queue", queue, f"{CONTACT}={contact}")


def test_of_a_workload_that_waits_for_room_its_user_has_the_place_the_reason_and_whom_to_ask(
    sandbox: PluginSandbox,
) -> None:
    queue = sandbox.queue("theirs", "--capability=pods=1")
    annotate(sandbox, queue, "ML platform")
    sandbox.make(
        workload("Deployment", "apps/v1", "web", queue, replicas=3, selector={"matchLabels": {"app": "web"}})
    )
    them = user(sandbox, "ann")
    start = f"Deployment {sandbox.namespace}/web is not stopped, and 2 pods of it wait for room: "
    until(
        lambda: sandbox.told("deploy/web", them)["summary"].startswith(start),
        "two pods to say that they have no room",
    )
    text = sandbox.why("deploy/web", them)
    assert f'queue "{queue}" has no room: its capability is used\n' in text
    assert f' is 1 of 2 of namespace "{sandbox.namespace}"\n' in text
    assert "Let go by:   it goes when others end, or ML platform raises it\n" in text
    annotate(sandbox, queue, "#ml-queues")
    end = "it goes when others end, or #ml-queues raises it"
    until(
        lambda: [each.rpartition("; ")[2] for each in said_by_pods(sandbox)] == [end, end],
        "both pods to name the other contact",
    )


def test_whom_to_ask_about_a_stop_reaches_pods_that_wait_and_is_refused_where_it_is_no_line(
    sandbox: PluginSandbox,
) -> None:
    queue = sandbox.queue("theirs", "--state=suspended")
    sandbox.make(
        workload("Deployment", "apps/v1", "web", queue, replicas=2, selector={"matchLabels": {"app": "web"}})
    )
    them = user(sandbox, "bob")
    for contact in ("an admin of queues", "ML platform", "[us](https://example.com/queues)"):
        if contact != "an admin of queues":
            annotate(sandbox, queue, contact)
        text = f'queue "{queue}" is Suspended; {contact} can resume it'
        until(
            partial(say, sandbox, text),
            f"both pods to say: {text}",
        )
        assert sandbox.told("deploy/web", them)["summary"].endswith(f" waits: {text}")
    found = sandbox.direct.read_queue(queue)
    assert found["status"]["stop"]["contact"] == contact
    with pytest.raises(SetUpFailed, match="without semicolons"):
        annotate(sandbox, queue, "a; b")
