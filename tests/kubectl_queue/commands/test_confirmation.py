"""Questions are put to people at terminals and to nobody else."""

from __future__ import annotations

import io

import pytest

from kubectl_queue.output.console import Console
from tests.support.cases import each_case


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@each_case(
    ("typed", "answer"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False), ("yeah\n", False)],
)
def test_any_answer_but_yes_is_no(typed: str, answer: bool) -> None:
    err = Terminal()
    assert Console(io.StringIO(), err, Terminal(typed)).ask("Drain all the same?") is answer
    assert err.getvalue() == "Drain all the same? [y/N]: "


@pytest.mark.parametrize(
    ("source", "err"),
    [(None, Terminal()), (io.StringIO("y\n"), Terminal()), (Terminal("y\n"), io.StringIO())],
)
def test_questions_are_asked_only_at_a_terminal(source: io.StringIO | None, err: io.StringIO) -> None:
    """A pipe that says yes is nobody, and who does not see the question cannot answer it."""
    assert Console(io.StringIO(), err, source).ask("?") is None
    assert err.getvalue() == ""
