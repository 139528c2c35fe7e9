"""The command against a real API server and our server, as an operator meets it: the installed one where the
process matters.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import state_of, version
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import PATIENCE, until
from tests.support.e2e.workloads import JOB, work_body
from tests.support.plugin.harness import PLUGIN, plugin, plugin_in_process

Run = Callable[..., subprocess.CompletedProcess[str]]
QUEUE = "queue.scheduling.volcano.sh"


@pytest.fixture
def run(cluster: LocalCluster) -> Run:
    """The plugin in this process, as the administrator of the cluster."""

    def command(*words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return plugin_in_process(*words, kubeconfig=kubeconfig or cluster.client_kubeconfig)

    return command


@pytest.fixture
def installed(cluster: LocalCluster) -> Run:
    """The installed plugin, as the administrator of the cluster."""

    def command(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return plugin(*words, kubeconfig=cluster.client_kubeconfig, environ=environ)

    return command


@pytest.fixture
def queue(run: Run, sandbox: Sandbox) -> Callable[..., str]:
    """Makes queues, which are taken away after the test; by the command where there are flags."""

    def make(*flags: str) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        if not flags:
            return sandbox.queue(name)
        name = sandbox.named(name)
        done = run("create", name, "--wait", *flags)
        assert done.returncode == 0, done.stderr
        sandbox.queue_names.append(name)
        return name

    return make


def spec(sandbox: Sandbox, name: str) -> Object:
    found: Object = sandbox.read_queue(name)["spec"]
    return found


def state(sandbox: Sandbox, name: str) -> str:
    return state_of(sandbox.read_queue(name))


@pytest.mark.parametrize("output", ["", "-owide", "-ojson", "-oyaml", "-oname"])
def test_it_prints_what_kubectl_prints(
    run: Run, cluster: LocalCluster, sandbox: Sandbox, queue: Callable[..., str], output: str
) -> None:
    name = queue("--parent=default", "--capability=cpu=4,memory=8Gi", "--type=yes: 'no'")
    words = [name, *filter(None, [output])]

    def printed() -> tuple[str, str] | None:
        """By both, of the same version: its status may be written in between."""
        before = version(sandbox.read_queue(name))
        texts = run("get", *words).stdout, cluster.kubectl("get", "queues", *words)
        return texts if version(sandbox.read_queue(name)) == before else None

    ours, theirs = until(printed, "the queue to stay as it is for a moment")
    assert without_ages(ours) == without_ages(theirs)


def without_ages(text: str) -> str:
    """AGE may go on by a second between two commands."""
    return re.sub(r"\b\d+m?\d*s\b\s*", "", text)


def test_a_list_is_a_list_like_kubectl_s(run: Run, cluster: LocalCluster) -> None:
    ours, theirs = (
        json.loads(text) for text in (run("list", "-ojson").stdout, cluster.kubectl("get", "q", "-ojson"))
    )
    assert {key: ours[key] for key in ("apiVersion", "kind", "metadata")} == {
        key: theirs[key] for key in ("apiVersion", "kind", "metadata")
    }
    assert {"root", "default"} <= {item["metadata"]["name"] for item in ours["items"]}


def test_suspend_and_resume_wait_until_the_controller_has_acknowledged(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    stopped = run("suspend", name, "--reason=quota", "--for=30m", "--wait")
    assert stopped.returncode == 0, stopped.stderr
    assert f"{QUEUE}/{name} acknowledged: Suspended" in stopped.stdout
    assert {"state": "Suspended", "reason": "quota"}.items() <= spec(sandbox, name).items()
    assert "resumeAt" in spec(sandbox, name)
    resumed = run("resume", name, "--wait")
    assert f"{QUEUE}/{name} acknowledged: Open" in resumed.stdout
    assert {"reason", "resumeAt"}.isdisjoint(spec(sandbox, name))


def test_wait_ends_once_the_status_names_the_specs_that_there_are_on_the_whole_chain(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    """The queue below was acknowledged for a former spec of the one above, which is edited just before."""
    above = queue()
    below = queue("--parent", above)
    assert run("suspend", below, "--wait").returncode == 0
    assert run("suspend", above, "--reason=quota").returncode == 0
    done = run("suspend", below, "--wait")
    assert f"{QUEUE}/{below} acknowledged since " in done.stdout
    read = {name: sandbox.read_queue(name) for name in (below, above, "root")}
    stop = read[below]["status"]["stop"]
    assert stop["scope"]
    assert [(link["name"], link["generation"]) for link in stop["chain"]] == [
        (name, item["metadata"]["generation"]) for name, item in read.items()
    ]
    assert "Acknowledged: yes, since " in run("why", below).stdout
    assert "acknowledged since " in run("tree", below).stdout


def test_an_action_without_effect_says_so_and_exits_0(run: Run, queue: Callable[..., str]) -> None:
    name = queue("--state=suspended")
    done = run("suspend", name)
    assert (done.returncode, done.stdout) == (0, f"{QUEUE}/{name} unchanged (it is Suspended already)\n")


def test_close_says_closing_of_a_queue_whose_only_job_is_suspended_and_names_it(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    """It has no pods, and may be resumed."""
    name = queue()
    sandbox.make(JOB, work_body(JOB, "idle", name, suspend=True)).must(201)
    done = run("close", name, "--wait=acknowledged")
    assert done.stdout.startswith(f"{QUEUE}/{name} closing\n")
    sandbox.queue_that(name, "name the job", lambda read: "idle" in str(read["status"].get("closing")))
    assert state(sandbox, name) == "Closing"
    done = run("close", name, "--wait", "--timeout=1s")
    assert f"kept from Closed by job {sandbox.namespace}/idle of queue {name}" in done.stdout + done.stderr


def test_resume_does_not_undo_closed_and_open_does(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    assert "Closed, 0 live pods left" in run("close", name, "--wait").stdout
    refused = run("resume", name)
    assert (refused.returncode, state(sandbox, name)) == (0, "Closed")
    assert f"reopen it with: kubectl queue open {name}" in refused.stdout
    refused = run("suspend", name)
    assert (refused.returncode, state(sandbox, name)) == (1, "Closed")
    assert f"open it first: kubectl queue open {name}" in refused.stderr
    assert "acknowledged: Open" in run("open", name, "--wait").stdout


def test_a_dry_run_of_delete_says_what_the_server_would_say(run: Run, queue: Callable[..., str]) -> None:
    """The same reason, word for word."""
    name = queue()
    pretended, refused = run("delete", name, "--dry-run=client"), run("delete", name)
    close_it = f"close it first: kubectl queue close {name}"
    reason = f'queue "{name}" is Open and only a Closed queue can be deleted; {close_it}'
    assert (pretended.returncode, refused.returncode) == (1, 1)
    assert reason in pretended.stderr
    assert reason in refused.stderr


def test_a_reason_equal_to_the_earlier_one_is_kept(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    run("suspend", name, "--reason=moving")
    run("close", name, "--reason=moving")
    assert {"state": "Closed", "reason": "moving"}.items() <= spec(sandbox, name).items()


def test_what_becomes_of_parked_pods_is_set_with_a_stop_and_outlasts_it(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    assert run("hold", name, "--parked=recreate").stdout == f"{QUEUE}/{name} held\n"
    assert "stopPolicy Hold, parked Recreate, stops it" in run("why", name).stdout
    assert run("get", name, "-o", "wide").stdout.splitlines()[0].endswith("PARKED")
    assert run("resume", name).returncode == 0
    assert spec(sandbox, name)["parked"] == "Recreate"
    assert run("suspend", name, "--parked", "none").stdout == f"{QUEUE}/{name} suspended\n"
    assert "parked" not in spec(sandbox, name)


@pytest.mark.parametrize("verb", ["close", "delete"])
def test_a_dry_run_changes_nothing(run: Run, sandbox: Sandbox, queue: Callable[..., str], verb: str) -> None:
    """In each of its spellings."""
    name = queue()
    if verb == "delete":
        sandbox.edit(name, state="Closed")
        sandbox.in_state(name, "Closed")
    before = spec(sandbox, name)
    for dry_run in ("--dry-run=client", "--dry-run=server", "--dry-run"):
        done = run(verb, name, dry_run)
        assert done.returncode == 0, done.stderr
        assert "dry run)" in done.stdout
        assert spec(sandbox, name) == before


def test_a_policy_patched_with_kubectl_is_visible_at_once(
    run: Run, cluster: LocalCluster, queue: Callable[..., str]
) -> None:
    name = queue()
    cluster.kubectl("patch", "queue", name, "--type=merge", "-p", '{"spec":{"stopPolicy":"Hold"}}')
    assert "Hold" in run("get", name, "--no-headers").stdout.split()
    assert "stopPolicy Hold" in run("tree", name).stdout


def test_an_ancestor_that_still_stops_the_queue_is_named_and_does_not_hold_up_the_wait(
    run: Run, queue: Callable[..., str]
) -> None:
    parent = queue("--state=suspended")
    child = queue(f"--parent={parent}", "--state=suspended")
    done = run("resume", child, "--wait")
    assert done.returncode == 0
    assert f'Warning: queue "{child}" is Suspended by its ancestor "{parent}"' in done.stderr
    assert f"suspended by {parent}" in run("tree", parent).stdout


def test_concurrent_edits_all_succeed(installed: Run, queue: Callable[..., str]) -> None:
    """Conflicts are decided anew. No `close`: a queue that became Closed meanwhile may not be suspended."""
    name = queue()
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda word: installed(word, name), ["suspend", "resume", "open", "suspend"]))
    assert [each.returncode for each in done] == [0] * 4, [each.stderr for each in done]


def test_a_failure_at_one_queue_does_not_stop_the_others(
    run: Run, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    done = run("suspend", "not-there", name, "root-not")
    assert (done.returncode, spec(sandbox, name)["state"]) == (1, "Suspended")
    assert 'Error from server (NotFound): queues.scheduling.volcano.sh "not-there" not found' in done.stderr


def test_delete_of_what_is_not_there_is_an_error_or_not(run: Run) -> None:
    assert run("delete", "not-there").returncode == 1
    assert run("delete", "not-there", "--ignore-not-found").returncode == 0


def test_a_user_with_rights_on_one_queue_can_stop_it(
    run: Run, cluster: LocalCluster, sandbox: Sandbox, queue: Callable[..., str]
) -> None:
    name = queue()
    role = f"--resource-name={name}"
    cluster.kubectl(
        "create",
        "clusterrole",
        name,
        "--verb=get,patch,update",
        "--resource=queues.scheduling.volcano.sh",
        role,
    )
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={name}")
    try:
        theirs = cluster.user(name)
        sandbox.may(name, "update", "queues", "scheduling.volcano.sh", name=name)
        assert run("suspend", name, "--wait", kubeconfig=theirs).returncode == 0
        refused = run("suspend", "default", kubeconfig=theirs)
        assert "Error from server (Forbidden)" in refused.stderr
        assert "kubectl auth can-i --list" in refused.stderr
    finally:
        cluster.kubectl("delete", f"clusterrolebinding/{name}", f"clusterrole/{name}")


def test_impersonation_is_the_server_s_to_judge(run: Run) -> None:
    done = run("list", "--as=nobody", "--as-group=none")
    assert 'User "nobody" cannot list resource "queues"' in done.stderr


def test_variables_for_other_programs_change_nothing(installed: Run) -> None:
    environ = {"SSL_CERT_FILE": "/no-such-file", "REQUESTS_CA_BUNDLE": "/no-such-file"}
    proxies = {"HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
    assert installed("list", **environ, **proxies).returncode == 0


def test_an_unknown_authority_or_token_is_said_in_words(
    run: Run, cluster: LocalCluster, tmp_path: Path
) -> None:
    server = f"--server=https://127.0.0.1:{cluster.ports.apiserver}"
    unknown = run("list", server, "--token=x", kubeconfig=tmp_path / "none")
    assert "tls: failed to verify certificate" in unknown.stderr
    ca = f"--certificate-authority={cluster.layout.pki / 'ca.crt'}"
    refused = run("list", server, ca, "--token=wrong", kubeconfig=tmp_path / "none")
    assert "You must be logged in to the server (Unauthorized)" in refused.stderr


def test_nobody_answering_is_said_in_kubectl_s_words(tmp_path: Path) -> None:
    done = plugin("list", "--server=https://127.0.0.1:1", "--token=x", kubeconfig=tmp_path / "none")
    assert (done.returncode, done.stderr) == (
        1,
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n",
    )


def interruptible() -> None:
    """Whoever started the tests may have had interrupts ignored, which is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_watch_goes_on_printing_and_ends_on_an_interrupt_without_a_word(
    run: Run, cluster: LocalCluster, queue: Callable[..., str]
) -> None:
    name = queue()
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(cluster.client_kubeconfig)}
    words = [PLUGIN, "get", name, "-w"]
    with subprocess.Popen(
        words,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,  # noqa: PLW1509 - it does one system call
    ) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        late = threading.Timer(60, watch.kill)  # so that what never comes ends the lines
        late.start()
        try:
            assert watch.stdout.readline().split()[:2] == ["NAME", "STATE"]
            assert any(line.split()[:2] == [name, "Open"] for line in watch.stdout)
            run("suspend", name)
            assert any(line.split()[1] == "Suspended" for line in watch.stdout)
            watch.send_signal(signal.SIGINT)
            assert (watch.wait(PATIENCE), watch.stderr.read()) == (130, "")
        finally:
            late.cancel()
            watch.kill()


def test_a_reader_that_goes_away_is_no_error(cluster: LocalCluster) -> None:
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(cluster.client_kubeconfig)}
    with subprocess.Popen(
        [PLUGIN, "list", "-oyaml"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        assert (listing.wait(PATIENCE), listing.stderr.read()) == (141, b"")


def test_kubectl_finds_the_plugin(cluster: LocalCluster) -> None:
    environ = {
        "PATH": f"{Path(PLUGIN).parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.client_kubeconfig),
    }
    words = [str(cluster.layout.bin / "kubectl"), "queue", "get", "root", "-oname"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout == f"{QUEUE}/root\n"


def test_a_server_that_is_stopped_leaves_the_wait_to_its_time_out(
    run: Run, cluster: LocalCluster, queue: Callable[..., str]
) -> None:
    """Whatever is not acknowledged is not claimed to be."""
    name = queue()
    cluster.signal_component("server", signal.SIGSTOP)
    try:
        done = run("suspend", name, "--wait", "--timeout=2s", "--request-timeout=20s")
    finally:
        cluster.signal_component("server", signal.SIGCONT)
    assert done.returncode == 1
    assert "acknowledged:" not in done.stdout


def test_a_move_says_what_it_does_to_pods(sandbox: Sandbox, run: Run) -> None:
    sandbox.queue("lab", stopPolicy="HoldAndDrain", drain={"barePods": "Keep"})
    name = sandbox.queue("team")
    names = sandbox.pods("running", 2, name)
    sandbox.all_bound(names)
    sandbox.queue_that(name, "count", lambda found: found["status"].get("pods", {}).get("running") == 2)
    lab = sandbox.named("lab")
    dry = run("move", name, "--parent", lab, "--dry-run=client")
    assert dry.returncode == 0, dry.stderr
    moved = run("move", name, "--parent", lab)
    assert moved.returncode == 0, moved.stderr
    assert f'moved under "{lab}"' in moved.stdout
    for told in (dry.stderr, moved.stderr):
        assert (
            f'stopPolicy HoldAndDrain of queue "{lab}" drains queue "{name}": up to 2 pods that run' in told
        )
        assert f'queue "{lab}" stops queue "{name}" there' in told


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("list",),
            ("tree",),
            ("usage",),
            ("get", "root"),
            ("history", "root"),
            ("windows",),
            ("why", "root"),
        ),
        *(("suspend", "root", "--yes"), ("create", "mine"), ("delete", "mine"), ("status",)),
        *(("hold", "default"), ("drain", "default", "--yes"), ("stop", "default", "--yes")),
        *(
            ("resume", "default"),
            ("open", "default"),
            ("close", "default"),
            ("move", "default", "--parent=root"),
        ),
        *(("reclaim", "default", "--dry-run"), ("windows", "skip", "default", "nightly")),
        ("suspend", "--all"),
    ],
    ids=" ".join,
)
def test_who_has_no_right_at_all_is_told_which_one_it_takes(run: Run, words: tuple[str, ...]) -> None:
    """In the API server's words, with the way out, and as an error: no list looks empty."""
    done = run(*words, "--as=nobody")
    assert done.returncode == 1
    assert re.search(r'User "nobody" cannot \w+ resource "queues"', done.stderr), done.stderr
    assert "ask an administrator for the right, or see yours with: kubectl auth can-i --list" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "resource"),
    [
        (("why", "pod/x"), "pods"),
        (("why", "deployment/x"), "deployments"),
        (("why", "ns/default"), "namespaces"),
        (("why", "raycluster/x"), "pods"),
        (("convert",), "clusterqueues"),
        (("uninstall", "--yes"), "mutatingwebhookconfigurations"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else None,
)
def test_who_has_no_right_to_anything_else_is_told_so_too(
    run: Run, words: tuple[str, ...], resource: str
) -> None:
    done = run(*words, "--as=nobody")
    assert done.returncode == 1
    assert re.search(rf'User "nobody" cannot \w+ resource "{resource}"', done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert "mistake in kubectl queue" not in done.stderr


@pytest.mark.parametrize("words", [("list",), ("explain", "default"), ("show", "default")], ids=" ".join)
def test_who_may_not_read_policies_is_told_who_gives_that_right(run: Run, words: tuple[str, ...]) -> None:
    done = run("policy", *words, "--as=nobody")
    assert done.returncode == 1
    assert 'your user has no right to "get" configmaps of that name' in done.stderr
    assert "manifests/queue-readers" in done.stderr
