"""The names of the table of effects are those that Volcano registers, in the pinned version of its module."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from queues.policies.effects import ACTIONS, PLUGINS, SWITCHES
from tests.support.cases import each_case
from tests.support.go_modules import go_module

#: Switches of former versions, and of the development of others.
FORMER_SWITCHES = frozenset({"enabledSubGroupOrder", "enableSubGroupOrder"})


def scheduler() -> Path:
    """The scheduler's source."""
    return go_module("volcano.sh/volcano") / "pkg" / "scheduler"


def sources(folder: Path) -> str:
    return "\n".join(path.read_text() for path in folder.glob("*.go") if not path.name.endswith("_test.go"))


def registered(factory: Path, call: str, name: Callable[[str], re.Match[str] | None]) -> set[str]:
    """The names of what a factory registers. `name`: finds it in the source of its package."""
    text = factory.read_text()
    folders = dict(re.findall(r'^\s*(\w+)?\s*"volcano\.sh/volcano/pkg/scheduler/(.+)"', text, re.MULTILINE))
    by_alias = {alias: path for alias, path in folders.items() if alias}
    paths = re.findall(r'"volcano\.sh/volcano/pkg/scheduler/(.+)"', text)
    names = set()
    for alias in re.findall(rf"{call}\((\w+)\.", text):
        path = by_alias.get(alias) or next(each for each in paths if each.endswith(f"/{alias}"))
        found = name(sources(factory.parents[1] / path))
        assert found is not None, f"{alias} has no name"
        names.add(found[1])
    return names


def plugin_name(source: str) -> re.Match[str] | None:
    return re.search(r'\bPluginName\s*=\s*"([^"]+)"', source)


def action_name(source: str) -> re.Match[str] | None:
    direct = re.search(r'\) Name\(\) string \{\s*return "([^"]+)"', source)
    return direct or re.search(r'^\s*(?:const\s+)?[A-Z]\w*\s*=\s*"(\w+)"', source, re.MULTILINE)


def test_the_names_are_those_that_volcano_registers() -> None:
    folder = scheduler()
    plugins = registered(folder / "plugins" / "factory.go", "RegisterPluginBuilder", plugin_name)
    actions = registered(folder / "actions" / "factory.go", "RegisterAction", action_name)
    assert (plugins, actions) == (set(PLUGINS), set(ACTIONS))


def test_the_switches_are_those_that_volcano_reads() -> None:
    text = (scheduler() / "conf" / "scheduler_conf.go").read_text()
    found = set(re.findall(r'\*bool `yaml:"(\w+)"`', text))
    assert found | FORMER_SWITCHES == SWITCHES


@each_case(
    ("name", "table"),
    [
        *((name, PLUGINS) for name in ("numa-aware", "task-topology", "deviceshare", "pdb", "resourcequota")),
        *((name, ACTIONS) for name in ("shuffle", "gangpreempt", "gangreclaim")),
    ],
)
def test_names_by_which_people_know_them_are_there(name: str, table: dict[str, object]) -> None:
    assert name in table


def test_a_name_of_a_folder_is_none() -> None:
    """The plugin in the folder `numaaware` registers another name."""
    assert not {"numaaware", "tasktopology", "networktopologyaware"} & PLUGINS.keys()
