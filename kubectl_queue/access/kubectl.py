"""The kubectl of this machine: carries our requests to the API server, and prints where it prints best.

Kubeconfig files, contexts, credential plugins and their caches, client certificates, proxies and
impersonation are kubectl's: it is started as `kubectl proxy` with the flags that the user gave.

Promises
- The socket is in a directory that only its user may enter.
- kubectl and the directory are gone once `close` returns. Where this process ends without that, even by
  SIGKILL, a small shell removes both: it reads from a pipe of ours, which the kernel then closes.
- A credential plugin may talk to the terminal: kubectl has our standard input, and what it writes on
  standard error is passed on as it comes. kubectl's log is left out, since its answers say the same, and the
  error that it ends with becomes ours.
- Raises ConfigError where kubectl is missing, or ends before it serves, in kubectl's words.

Threads
- Any thread may ask for the socket, also while others wait for it: a thread of ours reads kubectl's standard
  output and wakes them. `close` is called once; it wakes who waits for the socket, with an error.
- `forward` is called in the threads that read, `kubectl-stdout` and `kubectl-stderr`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from shutil import rmtree, which
from typing import IO, cast

from kubectl_queue.errors import ConfigError, CredentialsError, QueueError, UnreachableError

#: Run by /bin/sh, which becomes kubectl. In front of that it starts the process that outlives us: `read` ends
#: with a line where kubectl has ended before us, and with an error where we are gone. Arguments: the
#: directory, our pipe, kubectl's command line.
_WATCHDOG = """
directory=$1 pipe=$2; shift 2
(
    trap '' HUP INT TERM
    read -r line <"$pipe"; gone=$?
    rm -rf "$directory"
    [ "$gone" = 0 ] || kill $$
) </dev/null >/dev/null 2>&1 &
exec "$@"
"""
#: The header of an entry of kubectl's log (k8s.io/klog), e.g. `E1122 16:23:42.795455    1868 proxy.go:147] `.
_LOG_ENTRY = re.compile(rb"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\] ", re.MULTILINE)
#: What it prints once it listens (k8s.io/kubectl/pkg/cmd/proxy).
_SERVES = b"Starting to serve on "
#: How an error begins that ends kubectl (k8s.io/kubectl/pkg/cmd/util/helpers.go).
_FATAL = re.compile(rb"^(error: |Error in configuration|Unable to connect|The connection to)", re.MULTILINE)
#: Bytes of the path of a socket: 104 on BSD and macOS, 108 on Linux, the last one 0.
_LONGEST_PATH = 103
#: Seconds for what kubectl wrote last: a process that a credential plugin left behind may keep stderr open.
_LAST_WRITES = 0.5


def find(environ: Mapping[str, str]) -> str:
    """The path of kubectl."""
    path = which("kubectl", path=environ.get("PATH"))
    if path is None:
        raise ConfigError(
            "kubectl queue reaches the API server through kubectl, and no kubectl is on PATH; install it "
            "(https://kubernetes.io/docs/tasks/tools/), or add the directory that it is in to PATH"
        )
    return path


def run(
    arguments: Sequence[str], *, access: Sequence[str], environ: Mapping[str, str], stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run kubectl to its end. `access`: flags that say who and where. Without `stdin` it has our stdin."""
    return subprocess.run(
        [find(environ), *access, *arguments],
        env=dict(environ),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def stream(arguments: Sequence[str], *, access: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run kubectl with our standard streams; its exit code. BrokenPipeError: its reader went away."""
    code = subprocess.run([find(environ), *access, *arguments], env=dict(environ), check=False).returncode
    if code == -signal.SIGPIPE:
        raise BrokenPipeError
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    return code


def context_namespace(*, access: Sequence[str], environ: Mapping[str, str]) -> str:
    """The namespace of the context; empty where it names none. Raises ConfigError in kubectl's words."""
    words = ("config", "view", "--minify", "-o", "jsonpath={.contexts[0].context.namespace}")
    done = run(words, access=access, environ=environ, stdin="")
    if done.returncode != 0 and "current-context" not in done.stderr:
        raise _error(done.stderr)
    return done.stdout.strip()


class KubectlProxy:
    """A `kubectl proxy` of this command's own. `close` it."""

    def __init__(
        self,
        access: Sequence[str],
        *,
        environ: Mapping[str, str],
        forward: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start it, without waiting until it serves."""
        path = find(environ)
        self._forward = forward or _to_stderr
        self._directory = _private_directory()
        self._socket = f"{self._directory}/api"
        read_end, self._alive_pipe = os.pipe()
        command = [path, *access, "proxy", f"--unix-socket={self._socket}", "--append-server-path"]
        # The filter is against browsers; a pod `exec-1` in a namespace `pods` would be taken for an exec.
        command.append("--reject-paths=^$")
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "sh", self._directory, f"/dev/fd/{read_end}", *command],
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(read_end,),
        )
        os.close(read_end)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._stderr = cast("IO[bytes]", self._process.stderr)
        self._serves = False
        #: Set once it serves, or has ended without.
        self._settled = threading.Event()
        self._fatal_error = b""
        self._stdout_reader = threading.Thread(target=self._read_stdout, name="kubectl-stdout", daemon=True)
        self._stderr_reader = threading.Thread(target=self._read_stderr, name="kubectl-stderr", daemon=True)
        self._stdout_reader.start()
        self._stderr_reader.start()

    def socket(self) -> str:
        """The path of its socket, once it serves there. Raises ConfigError where it ended instead."""
        self._settled.wait()
        if not self._serves:
            self._process.wait()
            self._stderr_reader.join(_LAST_WRITES)
            raise _error(self._fatal_error.decode(errors="replace"))
        return self._socket

    def _read_stdout(self) -> None:
        """Until it serves. Passes on what it prints before, such as a question for a username."""
        try:
            while not self._serves and (chunk := os.read(self._stdout.fileno(), 1 << 16)):
                before, serves, _ = chunk.partition(_SERVES)
                if before:
                    self._forward(before)
                self._serves = bool(serves)
        finally:
            self._settled.set()

    def close(self) -> None:
        """End it and wait for that."""
        self._process.terminate()
        self._process.wait()
        with suppress(OSError):
            os.write(self._alive_pipe, b"ended\n")
        os.close(self._alive_pipe)
        rmtree(self._directory, ignore_errors=True)
        self._settled.set()
        for reader, stream in ((self._stdout_reader, self._stdout), (self._stderr_reader, self._stderr)):
            reader.join(_LAST_WRITES)
            if not reader.is_alive():
                stream.close()

    def _read_stderr(self) -> None:
        while chunk := os.read(self._stderr.fileno(), 1 << 16):
            text = without_log(chunk)
            error = None if self._serves else _FATAL.search(text)
            shown = text[: error.start()] if error else text
            self._fatal_error += text[len(shown) :]
            if shown:
                self._forward(shown)


def without_log(chunk: bytes) -> bytes:
    """The text before the first entry of kubectl's log; kubectl writes an entry of many lines at once."""
    return _LOG_ENTRY.split(chunk, maxsplit=1)[0]


def _private_directory() -> str:
    directory = tempfile.mkdtemp(prefix="kubectl-queue-")
    if len(os.fsencode(directory)) + len("/api") <= _LONGEST_PATH:
        return directory
    rmtree(directory)
    return tempfile.mkdtemp(prefix="kubectl-queue-", dir="/tmp")


def _error(text: str) -> QueueError:
    """The error that kubectl ended with, in its words."""
    text = text.strip()
    if text.startswith("Unable to connect"):
        return UnreachableError(text)
    if text == "error: EOF":
        return CredentialsError(
            "kubectl cannot ask for a username here, and the kubeconfig names no user; "
            "give --context, --user, --token or --client-certificate, or ask at a terminal"
        )
    return ConfigError(text.removeprefix("error: ") or "kubectl ended before it served")


def _to_stderr(written: bytes) -> None:
    sys.stderr.flush()
    os.write(2, written)
