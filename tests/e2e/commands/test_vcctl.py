"""Volcano's own command line, unmodified, against our server: its users find what they expect.

The version is pinned in localcluster/vcctl/go.mod.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.external_tools import vcctl
from tests.support.e2e.objects import (
    condition,
    history,
    is_active,
)
from tests.support.e2e.sandbox import (
    QUEUES,
    Sandbox,
)
from tests.support.e2e.wait import until
from tests.support.skipping import built_or_skipped

Run = Callable[..., "subprocess.CompletedProcess[str]"]

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@pytest.fixture(scope="module")
def binary() -> Path:
    """Built when it is not there yet; where it can neither be found nor built nothing is tested."""
    return built_or_skipped("vcctl", lambda: vcctl(say=print))


@pytest.fixture
def run(sandbox: Sandbox, binary: Path) -> Iterator[Run]:
    """`vcctl queue ...` as the administrator; the queues it made are gone afterwards.

    It complains on its standard output.
    """

    def ask(*arguments: str, refused: bool = False) -> subprocess.CompletedProcess[str]:
        kubeconfig = str(sandbox.cluster.client_kubeconfig)
        command = [str(binary), "queue", *arguments, "--kubeconfig", kubeconfig]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is refused, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    yield ask
    sandbox.delete_pods()
    groups = QUEUES.removesuffix("queues") + f"namespaces/{sandbox.namespace}/podgroups"
    sandbox.api.delete(groups).must()
    for name in sandbox.wishes():
        if name.startswith(sandbox.namespace):
            sandbox.remove_queue(name)


@pytest.fixture
def queue(sandbox: Sandbox, run: Run) -> str:
    """An Open queue, made by vcctl."""
    name = sandbox.named("research")
    run("create", "-n", name, "-w", "3")
    sandbox.in_state(name, "Open")
    return name


def listed(run: Run, queue: str, *, verb: str = "list") -> dict[str, str]:
    """What vcctl prints of the queue, by the heads of its columns."""
    arguments = (verb, "-n", queue) if verb == "get" else (verb,)
    heads, *lines = [line.split() for line in run(*arguments).stdout.splitlines()]
    return next(dict(zip(heads, line, strict=True)) for line in lines if line[0] == queue)


def no_commands(sandbox: Sandbox, queue: str) -> bool:
    items = sandbox.api.get(COMMANDS).must().body["items"]
    return not [each for each in items if each["target"]["name"] == queue]


def test_create_makes_an_open_queue_of_that_weight(sandbox: Sandbox, run: Run) -> None:
    """Its status is written by us, whatever vcctl sent of it."""
    name = sandbox.named("made")
    run("create", "--name", name, "--weight", "7")
    found = sandbox.in_state(name, "Open")
    assert found["spec"]["weight"] == 7
    assert is_active(found)


def test_create_closed_makes_a_closed_queue(sandbox: Sandbox, run: Run) -> None:
    """vcctl asks for it in `status.state`, which the API server drops; it takes no pods all the same."""
    name = sandbox.named("made")
    run("create", "-n", name, "-S", "Closed")
    assert sandbox.in_state(name, "Closed")["spec"]["state"] == "Closed"
    sandbox.pod("late", name).must_refuse(f'queue "{name}" is Closed')


def test_create_in_a_state_that_is_none_is_refused(sandbox: Sandbox, run: Run) -> None:
    """It prints why, with the words that there are, and makes no queue."""
    name = sandbox.named("made")
    said = run("create", "-n", name, "-S", "wrong", refused=True).stdout
    assert 'status.state: "wrong" is not known; use one of Open, Suspended, Closed' in said
    assert name not in sandbox.wishes()


def test_create_of_a_queue_that_is_there_is_refused(sandbox: Sandbox, run: Run, queue: str) -> None:
    """And nothing of it changes."""
    assert "already exists" in run("create", "-n", queue, "-w", "9", refused=True).stdout
    assert sandbox.read_queue(queue)["spec"]["weight"] == 3


def test_operate_close_and_open(sandbox: Sandbox, run: Run, queue: str) -> None:
    """Each acts through a Command in namespace default, which is gone once it has; who did it is noted."""
    run("operate", "-n", queue, "-a", "close")
    closed = sandbox.in_state(queue, "Closed")
    assert condition(closed, "Accepting")["status"] == "False"
    sandbox.event(queue, "CloseQueue", namespace="default")
    run("operate", "-n", queue, "-a", "open")
    opened = sandbox.in_state(queue, "Open")
    assert [(by, to) for by, field, _, to in history(opened) if field == "state"] == [
        ("admin", "Closed"),
        ("admin", "Open"),
    ]
    until(lambda: no_commands(sandbox, queue), "the Commands to go")


def test_operate_close_lets_what_was_accepted_run(sandbox: Sandbox, run: Run, queue: str) -> None:
    """The queue is Closing in `list` and in `get` as long as a pod of it lives, then Closed."""
    sandbox.pod("running", queue).must(201)
    sandbox.all_bound(["running"])
    run("operate", "-n", queue, "-a", "close")
    sandbox.in_state(queue, "Closing")
    assert listed(run, queue)["State"] == "Closing"
    assert listed(run, queue, verb="get")["State"] == "Closing"
    sandbox.delete_pods()
    sandbox.in_state(queue, "Closed")


def test_operate_update_changes_the_weight(sandbox: Sandbox, run: Run, queue: str) -> None:
    """Of a closed queue too, which stays closed."""
    run("operate", "-n", queue, "-a", "close")
    sandbox.in_state(queue, "Closed")
    run("operate", "-n", queue, "-a", "update", "-w", "11")
    assert listed(run, queue)["Weight"] == "11"
    assert sandbox.in_state(queue, "Closed")["spec"]["weight"] == 11


def test_list_and_get_show_state_weight_and_counts(sandbox: Sandbox, run: Run, queue: str) -> None:
    """The columns that vcctl prints are those of `status`, and both verbs agree."""
    sandbox.podgroup("team", queue)
    # vcctl counts the PodGroups themselves, by their phases; without pods it stays in this one.
    sandbox.queue_that(queue, "count its PodGroup", lambda found: found["status"].get("inqueue") == 1)
    until(lambda: _phase(sandbox, "team") == "Inqueue", "the PodGroup to be Inqueue")
    row = listed(run, queue)
    assert row.keys() == {"Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown"}
    assert (row["Name"], row["Weight"], row["State"]) == (queue, "3", "Open")
    assert sum(int(row[phase]) for phase in ("Inqueue", "Pending", "Running", "Unknown")) == 1
    assert listed(run, queue, verb="get") == row
    assert listed(run, "root")["State"] == "Open"


def test_a_suspended_queue_shows_as_such(sandbox: Sandbox, run: Run, queue: str) -> None:
    """vcctl knows no such state and prints it all the same; its column is one letter too narrow."""
    sandbox.suspend(queue)
    lines = [line.split() for line in run("list").stdout.splitlines()]
    assert [line[:3] for line in lines if line[0] == queue] == [[queue, "3", "Suspended0"]]


def test_delete_needs_a_closed_queue_and_says_so(sandbox: Sandbox, run: Run, queue: str) -> None:
    """The refusal that vcctl prints is ours, with the next step in it."""
    said = run("delete", "-n", queue, refused=True).stdout
    assert f'queue "{queue}" is Open' in said
    assert "close" in said
    run("operate", "-n", queue, "-a", "close")
    sandbox.in_state(queue, "Closed")
    run("delete", "-n", queue)
    until(lambda: sandbox.api.get(f"{QUEUES}/{queue}").status == 404, "the queue to go")


def test_a_user_without_the_right_to_the_queue_cannot_operate_it(
    sandbox: Sandbox, run: Run, queue: str, binary: Path
) -> None:
    """Commands alone are not enough; vcctl prints what is missing."""
    rules = [
        {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]},
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get"]},
    ]
    kubeconfig = sandbox.user("eve", sandbox.role("commander", *rules))
    sandbox.may("eve", "create", "commands", "bus.volcano.sh")
    command = [str(binary), "queue", "operate", "-n", queue, "-a", "close", "-k", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f'user "eve" may not act on queue "{queue}"' in done.stdout
    assert sandbox.answered(queue)["status"]["state"] == "Open"


def _phase(sandbox: Sandbox, podgroup: str) -> str:
    return str(sandbox.read_podgroup(podgroup).get("status", {}).get("phase", ""))
