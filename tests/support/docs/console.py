"""The commands of a page with what they print, as its reader types them.

A comment before a block says who types it: `<!-- typed by a user with edit in NAMESPACE -->`. Without one it
is an administrator.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

BLOCK = re.compile(
    r"^ *(?:<!-- typed by a user with edit in (?P<namespace>[\w-]+) -->\n\s*)?"
    r"^ *```console\n(?P<text>.*?)^ *```$",
    flags=re.MULTILINE | re.DOTALL,
)
#: A warning that README folds, since it is longer than its lines may be.
FOLDED = re.compile(r"^(Warning: .*;)\n  ", re.MULTILINE)


class Step(NamedTuple):
    """`editor_of`: the namespace in which the reader has `edit`; empty: an administrator."""

    command: str
    output: str
    editor_of: str = ""


def steps(text: str) -> Iterator[Step]:
    """Each command of the blocks `console` with its output. A command may have several lines."""
    for block in BLOCK.finditer(text):
        lines = FOLDED.sub(r"\1 ", textwrap.dedent(block["text"])).splitlines()
        while lines:
            command = lines.pop(0).removeprefix("$ ")
            while lines and not _is_whole(command):
                command += f"\n{lines.pop(0)}"
            output = []
            while lines and not lines[0].startswith("$ "):
                output.append(lines.pop(0))
            yield Step(command, "\n".join(output), block["namespace"] or "")


@cache
def _is_whole(command: str) -> bool:
    """Whether bash takes it as it is; of a text that goes on to the end of the file it says so."""
    done = subprocess.run(
        ["/bin/bash", "-n", "-c", command], capture_output=True, text=True, check=False, timeout=10
    )
    return done.returncode == 0 and not done.stderr and not command.endswith("\\")
