"""The plugin reaches the API server as kubectl does, and leaves no kubectl behind, however it ends."""

from __future__ import annotations

import os
import pty
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.cluster import LocalCluster
from tests.support import yaml_texts
from tests.support.e2e.wait import PATIENCE, until
from tests.support.plugin.harness import (
    HOME,
    PLUGIN,
    plugin,
)


@pytest.fixture
def config(cluster: LocalCluster, tmp_path: Path) -> Path:
    """The administrator's kubeconfig, in a file of the test's own."""
    path = tmp_path / "config"
    path.write_bytes(cluster.client_kubeconfig.read_bytes())
    return path


@pytest.fixture
def folder() -> Iterator[Path]:
    """For the temporary files of a command; leaves room for the path of a socket, however long TMPDIR is."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        yield Path(name)


def edit(path: Path, *, cluster: Mapping[str, Any] | None = None, **sections: Any) -> Path:
    """Adds to the cluster of a kubeconfig, and replaces its user or context."""
    document = yaml_texts.load(path.read_bytes())
    document["clusters"][0]["cluster"] |= cluster or {}
    for name, value in sections.items():
        document[f"{name}s"][0][name] = value
    path.write_text(yaml.safe_dump(document))
    return path


def error(*words: str, kubeconfig: Path | str = "/no-such-file", **environ: str) -> str:
    """What the command says on standard error as it fails."""
    done = plugin(*words, kubeconfig=kubeconfig, environ=environ)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


# How it ends


@contextmanager
def watching(config: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A `get -w` that has printed something; its temporary files are in the folder."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": HOME.name,
        "KUBECONFIG": str(config),
        "TMPDIR": str(folder),
    }
    with subprocess.Popen(
        [PLUGIN, "get", "-w"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - one system call
    ) as command:
        assert command.stdout is not None
        try:
            assert command.stdout.readline().startswith("NAME")
            yield command
        finally:
            command.kill()


def uses(folder: Path) -> list[str]:
    """The programs with this folder in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command:
            found.append(Path(os.fsdecode(command.partition(b"\0")[0])).name)
    return found


def test_the_socket_is_in_a_directory_that_only_its_user_may_enter(config: Path, folder: Path) -> None:
    with watching(config, folder):
        (private,) = folder.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert [path.name for path in private.iterdir()] == ["api"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_kubectl_and_its_socket_are_gone_however_the_command_ends(
    config: Path, folder: Path, number: signal.Signals
) -> None:
    """Killed with SIGKILL it cannot end anybody: the shell that waits for that does it, in a moment."""
    with watching(config, folder) as command:
        assert uses(folder)
        command.send_signal(number)
        assert command.wait(PATIENCE) == (130 if number == signal.SIGINT else -number)
        until(lambda: not uses(folder) and not list(folder.iterdir()), "the end of kubectl and its socket")


@pytest.mark.parametrize("words", [["list"], ["list", "--context=none"], ["get", "none"], ["list", "--as=x"]])
def test_nothing_is_left_where_it_is_done_or_fails(config: Path, folder: Path, words: list[str]) -> None:
    """kubectl and its socket are gone at once; the shell that would have removed them ends a moment later."""
    plugin(*words, kubeconfig=config, environ={"TMPDIR": str(folder)})
    assert list(folder.iterdir()) == []
    assert "kubectl" not in uses(folder)
    until(lambda: not uses(folder), "the end of that shell")


def test_a_long_name_of_the_temporary_directory_is_no_obstacle(config: Path, tmp_path: Path) -> None:
    """The path of a socket has 103 characters at most."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    assert plugin("list", kubeconfig=config, environ={"TMPDIR": str(folder)}).returncode == 0


# Who and where


def test_flags_alone_are_enough(cluster: LocalCluster) -> None:
    pki = cluster.layout.pki
    words = [
        f"--server=https://127.0.0.1:{cluster.ports.apiserver}",
        f"--certificate-authority={pki / 'ca.crt'}",
        f"--client-certificate={pki / 'admin.crt'}",
        f"--client-key={pki / 'admin.key'}",
    ]
    assert plugin("get", "root", "-oname", *words).stdout == "queue.scheduling.volcano.sh/root\n"


def test_groups_and_uids_are_impersonated(config: Path) -> None:
    """What the user may not do, its group may."""
    words = ("--as=nobody", "--as-uid=7")
    assert 'User "nobody" cannot list resource' in error("list", *words, kubeconfig=config)
    done = plugin("list", *words, "--as-group=x", "--as-group=system:masters", kubeconfig=config)
    assert done.returncode == 0, done.stderr


def test_the_namespace_of_the_context_is_where_why_looks(config: Path) -> None:
    edit(
        config, context={**yaml_texts.load(config.read_bytes())["contexts"][0]["context"], "namespace": "lab"}
    )
    assert 'pods "x" not found' in error("why", "pod/x", kubeconfig=config)
    assert "lab" in error("why", "pod/x", "--as=nobody", kubeconfig=config)


def test_no_path_is_kept_from_kubectl_proxy(config: Path) -> None:
    """By itself it takes a pod `exec-1` in a namespace `pods` for somebody who wants a shell."""
    assert 'pods "exec-1" not found' in error("why", "pod/exec-1", "-n", "pods", kubeconfig=config)


class Tunnel:
    """An HTTP proxy that takes CONNECT, and passes on what comes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.targets: list[str] = []
        threading.Thread(target=self._accept, name="tunnel", daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), name="tunnelled", daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        self.targets.append(head.split()[1].decode())
        host, _, port = self.targets[-1].rpartition(":")
        with client, socket.create_connection((host, int(port))) as server:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(server, client), name="back", daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_the_proxy_of_the_kubeconfig_is_used(cluster: LocalCluster, config: Path) -> None:
    tunnel = Tunnel()
    try:
        done = plugin("list", kubeconfig=edit(config, cluster={"proxy-url": tunnel.url}))
    finally:
        tunnel.close()
    assert done.returncode == 0, done.stderr
    assert set(tunnel.targets) == {f"127.0.0.1:{cluster.ports.apiserver}"}


# Credential plugins


def login(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "./login", "interactiveMode": "IfAvailable"}}


#: The administrator's certificate: nobody has a token here.
_ANSWERS = """
certificate=$(sed ':a;N;$!ba;s/\\n/\\\\n/g' "{pki}/admin.crt")
key=$(sed ':a;N;$!ba;s/\\n/\\\\n/g' "{pki}/admin.key")
printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
printf '{{"clientCertificateData":"%s\\\\n","clientKeyData":"%s\\\\n"}}}}' "$certificate" "$key"
"""


def test_a_credential_plugin_may_ask_on_the_terminal(
    cluster: LocalCluster, config: Path, tmp_path: Path
) -> None:
    """What it asks is seen, what is typed reaches it, and the list comes after."""
    script = 'printf "Word: " >&2; read -r word; [ "$word" = open ] || exit 3'
    edit(config, user=login(tmp_path, script + _ANSWERS.format(pki=cluster.layout.pki)))
    ours, theirs = pty.openpty()
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(config), "HOME": HOME.name}
    with subprocess.Popen(
        [PLUGIN, "get", "root", "-oname"],
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as command:
        os.close(theirs)
        late = threading.Timer(60, command.kill)  # so that what never comes ends the reading
        late.start()
        seen = b""
        try:
            while chunk := _read(ours):
                if b"Word: " in chunk:
                    os.write(ours, b"open\n")
                seen += chunk
        finally:
            late.cancel()
            os.close(ours)
        assert (command.wait(60), seen.splitlines()[-1]) == (0, b"queue.scheduling.volcano.sh/root")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_credential_plugin_that_fails_is_said(config: Path, tmp_path: Path) -> None:
    said = error("list", kubeconfig=edit(config, user=login(tmp_path, "echo no luck >&2; exit 3")))
    assert said.startswith("no luck\n")
    assert said.endswith("login failed with exit code 3\n")
    assert "proxy_server.go" not in said


def test_what_a_credential_plugin_leaves_behind_does_not_hold_up_the_end(
    config: Path, tmp_path: Path
) -> None:
    """Some start an agent, which keeps standard error open."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    user = login(tmp_path, f"cat '{fifo}' >/dev/null & exit 3")
    try:
        assert "failed with exit code 3" in error("list", kubeconfig=edit(config, user=user))
    finally:
        fifo.open("w").close()  # the agent ends


def test_a_credential_plugin_that_is_not_there_is_said_with_where_to_get_it(
    config: Path, tmp_path: Path
) -> None:
    user = login(tmp_path, "")
    user["exec"] |= {"command": "no-such-login", "installHint": "get it from x"}
    said = error("list", kubeconfig=edit(config, user=user))
    assert "executable no-such-login not found" in said
    assert "get it from x" in said


# What goes wrong


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--context=none"], 'error: context "none" does not exist\n'),
        (["--cluster=none"], 'error: cluster "none" does not exist\n'),
        (["--user=none"], 'error: auth info "none" does not exist\n'),
        (["--kubeconfig=/no-such-file"], "error: stat /no-such-file: no such file or directory\n"),
        (["--certificate-authority=/no-such-file"], "unable to read certificate-authority /no-such-file"),
        (["--as-group=g"], "without impersonating a user\n"),
        (["--server=::"], "Unable to connect to the server: missing protocol scheme\n"),
        (["--server=ftp://x"], 'unsupported protocol scheme "ftp"; give the address of an API server'),
        (["--server=https://no.such.invalid"], "look at the server of the kubeconfig's cluster"),
    ],
)
def test_what_leads_to_no_server_is_said_in_kubectl_s_words(
    config: Path, words: list[str], text: str
) -> None:
    assert text in error("list", *words, kubeconfig=config)


def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("{")
    assert f'error loading config file "{path}"' in error("list", kubeconfig=path)


def test_without_any_kubeconfig_it_says_what_to_give() -> None:
    said = error("list", kubeconfig=os.devnull)
    assert ":8080 was refused - did you specify the right host or port?\n" in said
    assert "set KUBECONFIG, or give --kubeconfig FILE, --context NAME or --server URL" in said


def test_where_nothing_says_who_we_are_it_says_what_to_give(cluster: LocalCluster) -> None:
    """kubectl asks for a username; here is nobody to answer."""
    said = error("list", f"--server=https://127.0.0.1:{cluster.ports.apiserver}")
    assert "kubectl cannot ask for a username here" in said
    assert "give --context, --user, --token or --client-certificate" in said


def test_without_kubectl_it_says_how_to_get_it(config: Path) -> None:
    assert "no kubectl is on PATH; install it" in error("list", kubeconfig=config, PATH="/no-such-file")


def test_a_server_that_says_nothing_is_given_up_when_the_time_is_over(config: Path) -> None:
    """Also the first request, which may have to wait for a login; whether a change was made is not known."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = (f"--server=http://127.0.0.1:{silent.getsockname()[1]}", "--request-timeout=1s")
        said = error("list", *words, kubeconfig=config)
        assert (
            "it did not answer in 1 s; look at the network, or give it longer with --request-timeout\n"
            in said
        )
        assert "whether it took the change is not known" in error("create", name, *words, kubeconfig=config)


def test_another_kind_of_server_is_told_from_one_that_is_down(cluster: LocalCluster, config: Path) -> None:
    server = f"--server=http://127.0.0.1:{cluster.ports.apiserver}"
    assert "Client sent an HTTP request to an HTTPS server" in error("list", server, kubeconfig=config)
