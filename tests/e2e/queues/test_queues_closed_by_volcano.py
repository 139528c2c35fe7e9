"""A queue that Volcano had closed stays closed when Sluice starts, and its spec says so."""

from __future__ import annotations

from tests.support.e2e.objects import condition, queue_body, state_of
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.unregistered import without_queue_webhooks
from tests.support.e2e.wait import until


def test_a_queue_that_volcano_had_closed_is_never_open(sandbox: Sandbox) -> None:
    """Volcano keeps a close in the status alone; here it was made before the server starts."""
    sandbox.cluster.stop_components("server")
    name = sandbox.named("research")
    sandbox.queue_names.append(name)
    body = queue_body(name)
    body["spec"] = {"weight": 1}
    try:
        with without_queue_webhooks(sandbox):
            sandbox.api.create(QUEUES, body).must(201)
            status = {"state": "Closed", "pending": 0, "running": 0}
            sandbox.api.patch(f"{QUEUES}/{name}/status", {"status": status}).must()
    finally:
        sandbox.cluster.start_components("server")
    found = sandbox.queue_that(
        name, "be Closed by its spec", lambda now: now["spec"].get("state") == "Closed"
    )
    assert state_of(found) in {"Closed", "Closing"}, "until the API server has said that nothing is in it"
    assert state_of(sandbox.in_state(name, "Closed")) == "Closed"
    found = sandbox.answered(name)
    assert condition(found, "Accepting")["status"] == "False"
    [line] = found["status"]["changes"]
    assert (line["by"], line["to"]) == ("sluice: closed by Volcano", "Closed")
    assert "Volcano had closed it" in line["reason"]
    until(
        lambda: any("CloseAdopted" in event for event in sandbox.events(name, namespace="default")),
        "the event",
    )
    sandbox.edit(name, state="Open")
    assert state_of(sandbox.in_state(name, "Open")) == "Open"
