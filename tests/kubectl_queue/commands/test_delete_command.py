"""`delete --dry-run=client` says which queues the server would not delete, and why."""

from __future__ import annotations

from tests.support.plugin.harness import (
    StoredQueues,
    item,
    run_command,
)

CLOSED = {"state": "Closed"}
BUILT_IN = (item("root"), item("default"))


def test_a_dry_run_of_all_names_each_queue_that_cannot_be_deleted_with_the_reason() -> None:
    api = StoredQueues(
        *BUILT_IN,
        item("done", state="Closed", status=CLOSED),
        item("busy"),
        item("above", state="Closed", status=CLOSED),
        item("below", parent="above", state="Closed", status={"state": "Closing"}),
    )
    result = run_command(api, "delete", "--all", "--dry-run=client")
    assert result.code == 1
    assert result.out == 'queue.scheduling.volcano.sh "done" deleted (dry run)\n'
    assert result.err.splitlines() == [
        "`default` queue can not be deleted; to have it take nothing: kubectl queue close default",
        "`root` queue can not be deleted; to stop every queue: kubectl queue suspend root",
        'error: queue "below" is Closing and can be deleted once it is Closed, when its members have ended; '
        "see what keeps it with: kubectl queue why below",
        'error: queue "above" cannot be deleted: it has 1 child queue (below); delete or move them first',
        'error: queue "busy" is Open and only a Closed queue can be deleted; '
        "close it first: kubectl queue close busy",
    ]
    assert api.deleted == []


def test_a_dry_run_takes_children_that_would_be_deleted_for_gone() -> None:
    above = item("above", state="Closed", status=CLOSED)
    below = item("below", parent="above", state="Closed", status=CLOSED)
    result = run_command(StoredQueues(*BUILT_IN, above, below), "delete", "--all", "--dry-run=client")
    assert (result.code, result.out.count("deleted (dry run)")) == (0, 2)


def test_a_dry_run_of_a_queue_that_is_not_there_is_an_error_unless_ignored() -> None:
    api = StoredQueues(*BUILT_IN)
    assert run_command(api, "delete", "gone", "--dry-run=client").code == 1
    assert run_command(api, "delete", "gone", "--dry-run=client", "--ignore-not-found").code == 0
