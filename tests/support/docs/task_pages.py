"""The pages of docs/tasks that have commands, in the order of the site's table of contents."""

from __future__ import annotations

import re
import tomllib

from tests.support.docs.console import BLOCK, steps
from tests.support.docs.pages import section_of
from tests.support.paths import ROOT

#: It prints all queues of the cluster.
FIRST = "docs/tasks/stop-everything.md"
#: How a page makes a queue or a namespace.
MADE = re.compile(
    r"^kubectl (?:queue create|create (?:namespace|ns)) (?P<by_command>[\w-]+)"
    r"|^kind: (?:Queue|Namespace)\nmetadata:(?:\n  | \{)name: (?P<in_manifest>[\w-]+)",
    re.MULTILINE,
)


def in_reading_order() -> list[str]:
    """By their paths."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    [tasks] = [each["Tasks"] for each in project["nav"] if "Tasks" in each]
    return [page for page in tasks if isinstance(page, str) and BLOCK.search((ROOT / page).read_text())]


def text_of_page(page: str) -> str:
    """Of README the tour alone."""
    text = (ROOT / page).read_text()
    return section_of(text, "A tour") if page == "README.md" else text


def names_that_it_makes(page: str) -> list[str]:
    """Queues and namespaces."""
    return [
        match["by_command"] or match["in_manifest"]
        for step in steps(text_of_page(page))
        for match in MADE.finditer(step.command)
    ]
