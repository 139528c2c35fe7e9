"""ui: the page of all queues in a browser (`kubectl_queue.ui`)."""

from __future__ import annotations

from kubectl_queue.cli.flags import Flags, bool_flag, int_flag
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.session import Session

_COMMAND = "kubectl queue ui"
_HIGHEST_PORT = 65535


def run_ui(session: Session, flags: Flags) -> int:
    if flags.names:
        raise UsageError("ui takes no names", see=_COMMAND)
    port = _port(flags)
    try:
        from kubectl_queue.ui.serving import PageServer, open_browser  # noqa: PLC0415 - Flask is optional
    except ModuleNotFoundError as exc:
        raise QueueError(
            f"the page needs the package {exc.name}, which comes with the plugin's extra `ui`: "
            "pipx install 'kubectl-queue[ui]'"
        ) from exc
    from kubectl_queue.ui.viewer import read_place  # noqa: PLC0415 - as above

    place = read_place(access=session.access_flags, environ=session.environ, acts_as=flags.text("as"))
    try:
        page = PageServer(session.transport, place, port=port, say=session.console.note)
    except OSError as exc:
        raise QueueError(f"port {port} cannot be had: {exc.strerror}; leave out --port") from exc
    try:
        session.console.say(page.address)
        opened = not flags.on("no-browser") and open_browser(page.redirect_file(), environ=session.environ)
        session.console.note(
            ("The page opens in your browser" if opened else "Open this address in a browser on this machine")
            + "; it works once. Ctrl-C ends the page."
        )
        page.run()
    finally:
        page.close()
    return 0


def _port(flags: Flags) -> int:
    port: int = flags.value("port") or 0
    if not 0 <= port <= _HIGHEST_PORT:
        raise UsageError(f"--port must be from 1 to {_HIGHEST_PORT}", see=_COMMAND)
    return port


VERBS = (
    Verb(
        name="ui",
        usage="",
        long=(
            "Show all queues on a page in your browser, as they are now: stops that are not acknowledged and "
            "drains that are blocked first, then the tree; of a queue what `why`, `history` and `get` say of "
            "it; and the actions on it, each with a preview. It has your rights, listens on 127.0.0.1 alone, "
            "and ends with the command. The address works once; then the command prints another one."
        ),
        examples=("kubectl queue ui", "kubectl queue ui --context prod --no-browser --port 8765"),
        flags=(
            int_flag("port", "The port of 127.0.0.1 to listen on; any free one if not given."),
            bool_flag("no-browser", "Print the address and open no browser."),
        ),
        run=run_ui,
        tells_outage=False,
    ),
)
