"""What --help prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from kubectl_queue.cli.flags import Flag
from kubectl_queue.cli.options import COMMAND, COMMON
from kubectl_queue.commands import verbs
from kubectl_queue.commands.verbs import Verb

_INDENT = "  "
_WIDTH = 100

EXIT_CODES = """\
Exit codes:
  0    done, or there was nothing to do, which is said
  1    anything else: a wrong command line, a refusal, a time-out of --wait; stderr says what to do
  130  interrupted
  141  the reader of the output went away"""


def overview() -> str:
    """The help of `kubectl queue`."""
    return "\n\n".join(
        (
            "Stop, drain and steer the queues of a cluster.",
            f"Usage:\n{_INDENT}{COMMAND} VERB [NAME...] [flags]",
            "Verbs:\n" + _aligned((name, row.short) for name, row in verbs.TABLE.items()),
            EXIT_CODES,
            f'Use "{COMMAND} VERB --help" for more about a verb.',
        )
    )


def page(verb: Verb) -> str:
    """The help of one verb."""
    return "\n\n".join(
        (
            textwrap.fill(verb.long, _WIDTH),
            "Examples:\n" + textwrap.indent("\n".join(verb.examples), _INDENT),
            f"Usage:\n{_INDENT}{' '.join(filter(None, (verb.command, verb.usage, '[flags]')))}",
            "Flags:\n" + _flags(verb.flags),
            "Flags of every verb:\n" + _flags(COMMON),
            EXIT_CODES,
        )
    )


def _flags(flags: Iterable[Flag]) -> str:
    return _aligned((_form(flag), flag.help) for flag in flags)


def _form(flag: Flag) -> str:
    short = f"-{flag.short}, " if flag.short else "    "
    if flag.bare is not None:
        return f"{short}--{flag.name}[={flag.value}]"
    return f"{short}--{flag.name} {flag.value}"


def _aligned(rows: Iterable[tuple[str, str]]) -> str:
    """Two columns; a long first one stands on a line of its own."""
    left_width = 30
    lines: list[str] = []
    for left, right in rows:
        wrapped = textwrap.wrap(right, _WIDTH - left_width) or [""]
        if len(left) > left_width - len(_INDENT) - 1:
            lines.append(f"{_INDENT}{left}")
            left = ""  # noqa: PLW2901 - it has its line
        lines.append(f"{_INDENT}{left}".ljust(left_width) + wrapped[0])
        lines += [" " * left_width + line for line in wrapped[1:]]
    return "\n".join(lines)
