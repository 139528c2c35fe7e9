"""Where words go: results to stdout, all else to stderr.

Promises
- What the server or a user wrote cannot steer the terminal: control characters are shown, as `^[`.
- A warning is printed once, however often it is given.
- Progress is one line that is overwritten on a terminal, and elsewhere a line each time it changes.
- Questions are asked only at a terminal; every answer but yes is no.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Console:
    """The streams of a command. `source`: where answers come from."""

    def __init__(self, out: TextIO, err: TextIO, source: TextIO | None = None) -> None:
        self._out = out
        self._err = err
        self._source = source
        self._warned: set[str] = set()
        self._progress = ""

    @property
    def unicode(self) -> bool:
        """Whether stdout can show lines drawn in Unicode."""
        return (getattr(self._out, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")

    @property
    def at_terminal(self) -> bool:
        """Whether results are seen on a terminal."""
        return self._out.isatty()

    @property
    def terminal(self) -> bool:
        """Whether progress is seen on a terminal."""
        return self._err.isatty()

    def ask(self, question: str) -> bool | None:
        """Whether the user answers yes; None where there is no terminal to ask at."""
        if self._source is None or not (self._source.isatty() and self.terminal):
            return None
        self.end_progress()
        self._err.write(f"{_encodable(escape_controls(question), self._err)} [y/N]: ")
        self._err.flush()
        return self._source.readline().strip().lower() in {"y", "yes"}

    def read_input(self, *, limit: int) -> str:
        """What is on stdin, at most `limit` characters. Raises UnicodeDecodeError."""
        return self._source.read(limit) if self._source is not None else ""

    def say(self, text: str) -> None:
        """Print a result, and flush."""
        self.end_progress()
        self._out.write(_encodable(escape_controls(text), self._out) + "\n")
        self._out.flush()

    def write(self, text: str) -> None:
        """Print a result as it is, without adding a line end."""
        self.end_progress()
        self._out.write(_encodable(escape_controls(text), self._out))
        self._out.flush()

    def write_lines(self, lines: Iterable[str], *, end: str) -> None:
        """Print a result whose lines have another end."""
        self.end_progress()
        self._out.write("".join(_encodable(escape_controls(line), self._out) + end for line in lines))
        self._out.flush()

    def note(self, text: str) -> None:
        self.end_progress()
        self._err.write(_encodable(escape_controls(text), self._err) + "\n")
        self._err.flush()

    def warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.note(f"Warning: {text}")

    def progress(self, text: str) -> None:
        if text == self._progress:
            return
        shown = _encodable(escape_controls(text), self._err)
        self._err.write(f"\r{shown[: _room(self._err)]}\x1b[K" if self.terminal else f"{shown}\n")
        self._err.flush()
        self._progress = text

    def end_progress(self) -> None:
        if self._progress and self.terminal:
            self._err.write("\r\x1b[K")
        self._progress = ""


def _room(stream: TextIO) -> int | None:
    """Letters of a line that does not wrap: one that does could not be overwritten. None: not known."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return None
    return columns - 1 if columns > 1 else None


def escape_controls(text: str) -> str:
    """The text with its control characters made visible; line ends and tabs stay."""
    return _CONTROL.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else "\ufffd"


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
