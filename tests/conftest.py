"""The control plane that tests share: one a worker, started when the first test asks for it."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_flask.plugin
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.runner import runtestprotocol
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

from localcluster import processes
from localcluster.build import cache
from localcluster.cluster import LocalCluster
from tests import core, ways, weights
from tests.support.examples import DEFAULT, examples
from tests.support.skipping import built_or_skipped

#: A test that asks for one of these needs the control plane, and is marked so.
FIXTURES = {"cluster", "module_cluster", "configured_cluster", "new_cluster", "bare", "small_limits"}
#: Of these, those whose control plane the next module can have.
HANDED_ON = {"cluster", "module_cluster"}

# The plugin reaches the API server through kubectl: the one that was built here goes before the machine's.
os.environ["PATH"] = os.pathsep.join((str(cache()), os.environ.get("PATH", "")))

HERE = Path(__file__).parent
#: Tests that `make test` does not read, with the mark that asks for them: those with real nodes, which need
#: root, those with cert-manager's controllers, whose build takes minutes, and those with a browser.
SUITES = {
    HERE / "browser": "browser",
    HERE / "pods": "pods",
    HERE / "e2e" / "certs" / "test_cert_manager.py": "cert_manager",
}

#: Seconds: a test that hangs fails, with what each thread was at, and its worker is replaced. No test takes
#: three minutes, but the first one to ask for a program of another project waits until that is built.
HANGS = int(os.environ.get("HANGS") or 1500)
#: pytest's own `faulthandler_timeout` starts and ends a thread for each test, which is a fifth of what most
#: take. One clock is wound again by the first test after so many seconds.
REWIND = 60

#: Seconds: a set-up or a tear-down that takes longer is reported; `tests/weights.py` counts it.
WORTH_SAYING = 0.01

#: What `make test` asks for (`tests/ways.py`).
NOT_REST = "not rest"
#: Beside its waits, a file with a control plane takes half a core, of two.
CLUSTER_WORKERS = 4
END_TO_END = "tests/e2e/"
#: Of the end-to-end tests only some in here do without a control plane.
SOME_WITHOUT_CLUSTER = HERE / "e2e" / "cluster"
#: Whose tests share a control plane without the server, which ends with the last of them.
MANIFESTS = "tests/e2e/manifests/"

#: What pytest-flask does beside each test, also beside the thousands without an `app`: a sixth of their time.
#: The context that it pushes would be shared by all requests of a test.
FLASK_AUTOUSE = ("_configure_application", "_monkeypatch_response_class", "_push_request_context")

settings.register_profile("tests", examples(DEFAULT))
settings.load_profile("tests")

NewCluster = Callable[..., LocalCluster]


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests start do not ignore it
    for name in FLASK_AUTOUSE:
        delattr(pytest_flask.plugin, name)  # before the session looks for fixtures


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where the slow ones are not wanted they are not read either: that alone takes seconds.

    Nor are end-to-end tests where those with a control plane are not wanted, but for `SOME_WITHOUT_CLUSTER`.
    Those of `SUITES` are read by `make test-pods` and `make test-cert-manager` alone.
    What `make test` leaves to `make test-rest` is not read by it either, nor the other way round.
    Of `make test`, a worker reads what it may run: to collect all of it takes ten seconds of a core.
    """
    if config.option.markexpr in {"rest", NOT_REST} and collection_path.is_file():
        is_test = collection_path.name.startswith("test_") and collection_path.is_relative_to(HERE)
        if is_test and ways.is_rest(collection_path) is not (config.option.markexpr == "rest"):
            return True
    if collection_path in SUITES:
        return True if SUITES[collection_path] not in config.option.markexpr else None
    if config.option.markexpr == "core" and not core.is_core(collection_path):
        return True
    if collection_path.is_file() and _is_left_to_others(collection_path, config):
        return True
    if "not cluster" in config.option.markexpr and collection_path.is_file():
        end_to_end = HERE / "e2e" in collection_path.parents
        if end_to_end and SOME_WITHOUT_CLUSTER not in collection_path.parents:
            return True
    unwanted = "not slow" in config.option.markexpr and weights.slow(collection_path)
    return True if unwanted else None


def _is_left_to_others(path: Path, config: pytest.Config) -> bool:
    """Whether the file is for other workers of `make test`: those with a control plane, or the one more.

    A worker that has taken the place of another reads all files.
    """
    worker = getattr(config, "workerinput", None)
    is_whole = config.option.markexpr in {"", NOT_REST}
    if worker is None or not is_whole or worker["workercount"] <= CLUSTER_WORKERS:
        return False
    number = _number(worker["workerid"])
    with_control_plane = HERE / "e2e" in path.parents
    return number < worker["workercount"] and (number < CLUSTER_WORKERS) != with_control_plane


_wound_at = -float("inf")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _wound_at  # noqa: PLW0603 - a clock of the process, as faulthandler's is
    if time.monotonic() - _wound_at > REWIND:
        _wound_at = time.monotonic()
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(HANGS, exit=True, file=stderr)


@pytest.hookimpl(trylast=True)  # before pytest's own
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """As pytest's own, without the reports of a set-up and of a tear-down of which there is nothing to say.

    A worker sends each report to the process that prints it, which costs more than many a test.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > WORTH_SAYING:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_unconfigure() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave garbage alone while the tests are collected: looking for it is a fifth of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # what was collected stays
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before those that choose by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for table in (weights, core, ways):
        if missing := table.missing():
            raise pytest.UsageError(f"{table.__file__} has files that are not there: {', '.join(missing)}")
    _leave_long_ones_out(config, items)
    fixtures: defaultdict[Path, set[str]] = defaultdict(set)
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        fixtures[item.path] |= names
        if FIXTURES & names:
            item.add_marker(pytest.mark.cluster)
        if weights.slow(item.path):
            item.add_marker(pytest.mark.slow)
        elif _is_missed(item):
            raise pytest.UsageError(f"{item.nodeid} needs no control plane: `make test-fast` misses it")
        if core.is_core(item.path):
            item.add_marker(pytest.mark.core)
        if item.path.is_relative_to(HERE) and ways.is_rest(item.path):
            item.add_marker(pytest.mark.rest)
    items.sort(key=lambda item: (_turn(item, fixtures[item.path]), -weights.seconds(item.path)))


def _leave_long_ones_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """They run where `make test-long` or `make test-core` asks for them, or their file is named."""
    if {"long", "core"} & set(config.option.markexpr.split()) or any(".py" in word for word in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _is_missed(item: pytest.Item) -> bool:
    """Whether `make test-fast` does not read the file of a test that it should run."""
    if not item.nodeid.startswith(END_TO_END) or SOME_WITHOUT_CLUSTER in item.path.parents:
        return False
    return item.get_closest_marker("cluster") is None


def _turn(item: pytest.Item, fixtures: set[str]) -> int:
    """When a file's tests are due, by their fixtures: first those that have a control plane for themselves,
    then those that hand theirs on. The tests of a worker that share one come last, on the one that is left.
    """
    if not fixtures & FIXTURES:
        # The worker that takes none of the end-to-end tests ends at the first one from the other end.
        return 2 if item.nodeid.startswith(END_TO_END) else 3
    if not fixtures & HANDED_ON or keeps_cluster(getattr(item, "module", None)):
        return 0
    return 2 if "cluster" in fixtures else 1


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A worker takes file after file; those that share the bare control plane go to one worker together.

    The first `CLUSTER_WORKERS` take the end-to-end tests, and those beyond that take all others, from the
    other end, and so use the cores while the first ones wait.

    A worker takes files that it has collected: in `make test` each has a part (`_is_left_to_others`).
    """

    collection: list[str] | None
    numnodes: int

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        #: By worker, the place of each test that it has collected.
        self._places: dict[WorkerController, dict[str, int]] = {}

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        self.registered_collections[node] = list(collection)
        self._places[node] = {nodeid: place for place, nodeid in enumerate(collection)}

    def schedule(self) -> None:
        """Begin, or go on where a worker has taken the place of one that ended."""
        if self.collection is None:
            if not self._are_alike():
                return
            self.collection = list(dict.fromkeys(chain(*self.registered_collections.values())))
            for nodeid in self.collection:
                self.workqueue.setdefault(self._split_scope(nodeid), {})[nodeid] = False
        # xdist has set it to what the last worker has collected.
        self.config.pluginmanager.getplugin("session").testscollected = len(self.collection)
        for _ in range(2):  # a worker runs a test once it knows the next one
            super().schedule()

    def _are_alike(self) -> bool:
        """Whether all workers that collect the same part have found the same tests."""
        found: dict[bool, list[str]] = {}
        for node, collection in self.registered_collections.items():
            if found.setdefault(self._takes_the_last(node), collection) != collection:
                return bool(self._check_nodes_have_same_collection())  # it says which tests differ
        return True

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """What has run is forgotten: xdist counts after each test what is left."""
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        units = self.assigned_work[node]
        del units[scope][nodeid]
        if not units[scope]:
            del units[scope]
        self._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return MANIFESTS if file.startswith(MANIFESTS) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give the worker the next file of its own, or end it where there is none."""
        scope, places = self._next_scope(node), self._places[node]
        if scope is None:
            node.shutdown()
            return
        unit = self.assigned_work[node][scope] = self.workqueue.pop(scope)
        node.send_runtest_some([places[nodeid] for nodeid in unit])

    def _next_scope(self, node: WorkerController) -> str | None:
        places = self._places[node]
        if not self._takes_the_last(node):
            return next(
                (scope for scope, unit in self.workqueue.items() if places.keys() >= unit.keys()), None
            )
        last = next(reversed(self.workqueue))
        return None if last.startswith(END_TO_END) else last

    def _takes_the_last(self, node: WorkerController) -> bool:
        """One that has taken the place of another takes whatever there is."""
        return CLUSTER_WORKERS <= _number(node.gateway.id) < self.numnodes


def _number(worker: str) -> int:
    return int(worker.removeprefix("gw"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which files `tests/weights.py` is wrong about, after a run of all of them."""
    some = config.option.markexpr not in {"", NOT_REST} or config.option.keyword
    if some or config.args_source != pytest.Config.ArgsSource.TESTPATHS:
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.split("::")[0].removeprefix("tests/")] += report.duration
    if lines := weights.mistaken(seconds):
        terminalreporter.section("tests/weights.py is wrong about these files")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def handed_on() -> Iterator[list[LocalCluster]]:
    """Clusters without the server that a module has left to the next one."""
    left: list[LocalCluster] = []
    yield left
    end_all(left)


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, handed_on: list[LocalCluster]
) -> Iterator[LocalCluster]:
    """A ready cluster with the server, shared by all tests of this worker: leave it as you found it."""
    given = _handed_on_or_new(tmp_path_factory, handed_on)
    with ExitStack() as ending:
        ending.callback(end, given)
        given.start_components("server")
        yield given


@pytest.fixture(scope="module")
def module_cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    handed_on: list[LocalCluster],
) -> Iterator[LocalCluster]:
    """One for the tests of a module that change it in ways that others would notice. The server does not run
    at first: replicas of the tests' own take its place, or see `served_cluster`.

    It is left to the next module, unless this one spoils it (`KEEPS_CLUSTER`).
    """
    kept = keeps_cluster(request.module)
    given = _handed_on_or_new(tmp_path_factory, [] if kept else handed_on)
    with ExitStack() as ending:  # also if it cannot be cleaned
        ending.callback(end, given)
        yield given
        if not kept and _is_cleaned(given):
            ending.pop_all()
            handed_on.append(given)


@pytest.fixture(scope="module")
def served_cluster(module_cluster: LocalCluster) -> LocalCluster:
    """The same, with the server."""
    module_cluster.start_components("server")
    return module_cluster


@pytest.fixture(scope="module")
def configured_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """One for a module that has it started in another way: with the options in its `CLUSTER`."""
    yield from started_and_ended(tmp_path_factory, **request.module.CLUSTER)


def started_and_ended(tmp_path_factory: pytest.TempPathFactory, **options: Any) -> Generator[LocalCluster]:
    """The body of a fixture: a cluster started with these options, which ends after the yield."""
    end_abandoned()
    started = start(tmp_path_factory.mktemp(folder_name(), numbered=True), **options)
    yield started
    end(started)


def _handed_on_or_new(factory: pytest.TempPathFactory, handed_on: list[LocalCluster]) -> LocalCluster:
    """Without the server."""
    end_abandoned()
    if handed_on:
        return handed_on.pop()
    return start(factory.mktemp(folder_name(), numbered=True), server=False)


def _is_cleaned(cluster: LocalCluster) -> bool:
    from tests.support.e2e.handing_on import is_cleaned  # noqa: PLC0415 - not for test-fast

    return is_cleaned(cluster)


def keeps_cluster(module: ModuleType | None) -> bool:
    """Whether its tests begin with a new cluster, and leave it such that no other module can have it."""
    return bool(getattr(module, "KEEPS_CLUSTER", False))


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    """Starts clusters of the test's own (arguments of `LocalCluster.start`) and ends them after it."""
    end_abandoned()
    started: list[LocalCluster] = []

    def new(**options: Any) -> LocalCluster:
        started.append(start(tmp_path / f"{folder_name()}{len(started)}", **options))
        return started[-1]

    yield new
    end_all(started)


def start(folder: Path, **options: Any) -> LocalCluster:
    """Start one; without its binaries the test is skipped, or fails where CI=true."""
    return built_or_skipped("control plane", lambda: LocalCluster.start(folder, **options))


def end(cluster: LocalCluster) -> None:
    """End it at once: the server is not given the seconds in which it answers what it was asked before."""
    if "server" in cluster.pids:
        cluster.signal_component("server", signal.SIGKILL)
    cluster.stop()


def end_all(clusters: Iterable[LocalCluster]) -> None:
    """End these, each though another one cannot be ended."""
    with ExitStack() as ending:
        for each in clusters:
            ending.callback(end, each)


def folder_name() -> str:
    """Says which process has to end the cluster."""
    return f"cluster-of-{os.getpid()}-"


def end_abandoned() -> None:
    """End the clusters of test runs that were killed before they could."""
    for folder in processes.clusters():
        owner = re.search(r"/pytest-of-.*/cluster-of-(\d+)-\d+$", str(folder))
        if owner and not Path("/proc", owner[1]).exists():
            processes.stop(folder, grace=0)
