"""One command line: find the verb, read its flags, run it or print its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from kubectl_queue.cli import flags
from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.options import COMMAND, COMMON
from kubectl_queue.cli.spelling import did_you_mean
from kubectl_queue.commands import verbs
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session


def run(
    words: Sequence[str],
    *,
    out: TextIO,
    err: TextIO,
    environ: Mapping[str, str],
    source: TextIO | None = None,
) -> int:
    """Run one command line; the exit code. Errors are printed on `err` and not raised."""
    console = Console(out, err, source)
    try:
        return _run(words, console=console, environ=environ)
    except QueueError as exc:
        console.note(str(exc))
        return 1
    finally:
        console.end_progress()


def _run(words: Sequence[str], *, console: Console, environ: Mapping[str, str]) -> int:
    _check_utf8(words)
    name, rest = split(words)
    if not name:
        flags.parse(rest, COMMON, command=COMMAND)
        return _help(name, console=console)
    verb = verbs.load(name)
    read = flags.parse(rest, (*verb.flags, *COMMON), command=verb.command)
    if read.on("help"):
        return _help(name, console=console)
    with Session(read, console=console, environ=environ) as session:
        return verb.execute(session, read)


def _check_utf8(words: Sequence[str]) -> None:
    """Raises UsageError for a word whose bytes are not text: no request could hold it."""
    for place, word in enumerate(words, start=1):
        if not word.isascii() and word.encode(errors="replace").decode() != word:
            raise UsageError(f"word {place} of the command line is not valid UTF-8", see=COMMAND)


def split(words: Sequence[str]) -> tuple[str, list[str]]:
    """The verb and all other words; "" where there is none. Flags of every verb may come before it."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    place = flags.first_name(words, COMMON)
    if place < 0:
        return "", list(words)
    name = words[place]
    if name not in verbs.TABLE:
        raise UsageError(f'unknown command {quoted(name)} for "{COMMAND}"{_did_you_mean(name)}', see=COMMAND)
    return name, [*words[:place], *words[place + 1 :]]


def _help(name: str, *, console: Console) -> int:
    from kubectl_queue.cli import help as helping  # noqa: PLC0415 - for those who ask

    console.say(helping.page(verbs.load(name)) if name else helping.overview())
    return 0


def _did_you_mean(name: str) -> str:
    from kubectl_queue.cli import suggestions  # noqa: PLC0415 - for a slip of the finger

    return did_you_mean(suggestions.suggested_verbs(name, verbs.TABLE))
