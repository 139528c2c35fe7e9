"""One table of ranks, which all who submit a write use; the type checker lets them use nothing else."""

from __future__ import annotations

import ast

from cluster import write_ranks
from cluster.write_ranks import WriteRank
from tests.support.paths import ROOT

#: They submit writes.
PACKAGES = ("cluster", "controller", "server")


def test_each_rank_has_its_row_in_the_order_in_which_writes_are_sent() -> None:
    rows = [line.split("`")[1] for line in str(write_ranks.__doc__).splitlines() if line.startswith("| `")]
    assert rows == [rank.name for rank in WriteRank]


def test_each_rank_is_used() -> None:
    texts = [path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    used = {
        node.attr
        for text in texts
        if "WriteRank" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "WriteRank"
    }
    assert used == {rank.name for rank in WriteRank}
