"""Reads a scheduling policy: a text in the format of Volcano's `volcano-scheduler.conf`.

| in the text                                   | becomes                                                  |
|-----------------------------------------------|----------------------------------------------------------|
| no YAML, no `actions`, no known action        | `BadPolicy` with the line                                |
| no `tiers`, a plugin without a name           | `BadPolicy`                                              |
| a weight below 0 or too great                 | `BadPolicy`                                              |
| too long, too deep, too many values           | `BadPolicy`, after a bounded amount of work              |
| an unknown action or plugin                   | skipped, and listed (`Policy.unknown`)                   |
| a known one that does nothing here            | read, and listed (`Policy.idle`)                         |
| an unknown field, switch or argument          | ignored, as Volcano does, with a warning                 |
| a key twice                                   | the last one counts, as in Volcano, with a warning       |
| a plugin twice                                | the later arguments count, and a switch is off only      |
|                                               | where each says false, as in Volcano; with a warning     |
| a merge key (`<<`)                            | sets its fields at its place; later keys override them   |
| an argument of the wrong type (`"10"`, `1.5`) | its default counts, as Volcano does, with a warning      |
| a negative weight of a resource of `binpack`  | 1, as Volcano does, with a warning                       |
| a factor of `overcommit` that is below 1      | 1.2, as Volcano does, with a warning                     |

Invariants
- The work is bounded for any text: at most `TEXT_LIMIT` bytes are parsed and at most `VALUE_LIMIT` values are
  visited. An alias counts at each use.
- Every reason is one line of bounded length. Lines count from 1.
- A text with one fault is no policy; `examine_policy` lists all faults that it can read.
- An unknown name is no fault: it may be of another version of Volcano, or of a plugin of the user's own.

Source: Volcano's `pkg/scheduler/util.go` (`UnmarshalSchedulerConf`), `conf/scheduler_conf.go`,
`framework/arguments.go`, and the plugins' own readers of arguments; `gopkg.in/yaml.v2`, which reads the text
there.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction

import msgspec
import yaml

from queues.apimachinery.yaml_events import yaml_events
from queues.policies.effects import (
    ACTIONS,
    APPLIED_SWITCHES,
    FIELDS_WITHOUT_EFFECT,
    PLUGINS,
    SWITCHES,
    WITH_ARGUMENTS,
    WITHOUT_EFFECT,
    Meaning,
)
from queues.policies.model import (
    WEIGHT_LIMIT,
    Binpack,
    NamedPart,
    NodeOrder,
    Plugin,
    Policy,
    PolicyProblemLine,
    ignored_places,
)
from queues.text import printable, quoted

#: Bytes of a policy's text.
TEXT_LIMIT = 65_536
#: Values (scalars, lists, mappings) of a policy, each counted as often as it is used; how deep they nest.
VALUE_LIMIT, DEPTH_LIMIT = 5_000, 16
#: Warnings that are kept of a policy, and names that are not known.
WARNINGS_LIMIT = 32
#: Names that are not known and for which the nearest one is looked for: each takes a while.
NEAREST_LIMIT = 8
#: Faults after which an examination ends: each may look for the nearest name.
FAULTS_LIMIT = 100
_FIELDS = ("actions", "tiers", "configurations", "metrics")
_TAG = "tag:yaml.org,2002:"

#: The argument of plugin `overcommit`, and its default.
OVERCOMMIT_FACTOR = "overcommit-factor"
DEFAULT_OVERCOMMIT = Fraction(6, 5)
#: Arguments of plugin `nodeorder`, and the fields of `NodeOrder` that they set.
NODE_ORDER_ARGUMENTS: Mapping[str, str] = {
    "leastrequested.weight": "least_requested",
    "mostrequested.weight": "most_requested",
    "nodeaffinity.weight": "node_affinity",
    "podaffinity.weight": "pod_affinity",
    "balancedresource.weight": "balanced_resource",
    "tainttoleration.weight": "taint_toleration",
    "imagelocality.weight": "image_locality",
    "podtopologyspread.weight": "pod_topology_spread",
}


class BadPolicy(ValueError):
    """The text is no policy. `place`: the line, and why, for its author."""

    def __init__(self, line: int, reason: str) -> None:
        self.place = PolicyProblemLine(line, printable(reason, limit=400))
        super().__init__(str(self.place))


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """A text, read to its end. `policy`: None if it has faults. `warnings`: by line, without a limit.

    `unknown`, `idle`: as those of a `Policy`, without a limit.
    """

    policy: Policy | None
    faults: tuple[PolicyProblemLine, ...] = ()
    warnings: tuple[PolicyProblemLine, ...] = ()
    unknown: tuple[NamedPart, ...] = ()
    idle: tuple[NamedPart, ...] = ()

    @property
    def ignored(self) -> tuple[PolicyProblemLine, ...]:
        """As that of a `Policy`."""
        return ignored_places(self.warnings, self.unknown, self.idle)

    @property
    def notices(self) -> tuple[PolicyProblemLine, ...]:
        """All that has no effect, by line."""
        named = (part.place for part in (*self.unknown, *self.idle))
        return tuple(sorted((*self.warnings, *named), key=lambda place: place.line))


def parse_policy(text: str) -> Policy:
    """The policy that a text stands for. Raises `BadPolicy`, with the first fault."""
    examination = _examine(text, faults_limit=1)
    if examination.policy is None:
        first = examination.faults[0]
        raise BadPolicy(first.line, first.reason)
    return examination.policy


def examine_policy(text: str) -> Examination:
    """All faults of a text, in the order in which they are found, and all parts that are ignored."""
    try:
        return _examine(text, faults_limit=FAULTS_LIMIT)
    except BadPolicy as exc:
        return Examination(policy=None, faults=(exc.place,))


def _examine(text: str, *, faults_limit: int) -> Examination:
    """Raises `BadPolicy` for what is no YAML, or too much of it."""
    node, converter = _compose(text), _Converter()
    document = converter.convert(node, depth=0)
    return _Reader(document, faults_limit=faults_limit, warnings=converter.warnings).examine()


class _Value(msgspec.Struct, frozen=True):
    """A value with its line. `value`: a scalar, a tuple of `_Value`, or a dict of `_Entry` by key."""

    line: int
    value: object


class _Entry(msgspec.Struct, frozen=True):
    line: int
    value: _Value


def _compose(text: str) -> yaml.Node:
    """The text as YAML. Raises `BadPolicy`."""
    if len(text.encode(errors="replace")) > TEXT_LIMIT:
        raise BadPolicy(1, f"the policy is longer than {TEXT_LIMIT:,} bytes")
    try:
        _bounded(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise BadPolicy(line, f"not YAML: {exc.problem}") from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: a character or a number that YAML has not
        raise exc if isinstance(exc, BadPolicy) else BadPolicy(1, f"not YAML: {exc}") from exc
    if node is None:
        raise BadPolicy(1, "the policy is empty")
    return node


def _bounded(text: str) -> None:
    """Raises `BadPolicy` where there is more than one document, or more than may be read."""
    values = documents = 0
    for line, depth, event in yaml_events(text):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadPolicy(line, "a second document (---) begins; a policy is one")
        values += isinstance(event, yaml.NodeEvent)
        _limit(line, depth, values)


def _limit(line: int, depth: int, values: int) -> None:
    if depth > DEPTH_LIMIT:
        raise BadPolicy(line, f"values are nested deeper than {DEPTH_LIMIT}")
    if values > VALUE_LIMIT:
        raise BadPolicy(line, f"there are more than {VALUE_LIMIT:,} values")


class _Converter:
    """Composed YAML to values. An alias is converted, and counted, each time it is used."""

    def __init__(self) -> None:
        #: Of keys that are there twice.
        self.warnings: list[PolicyProblemLine] = []
        self._values = 0
        self._constructor = yaml.SafeLoader("")

    def convert(self, node: yaml.Node, *, depth: int) -> _Value:
        line = node.start_mark.line + 1
        self._values += 1
        _limit(line, depth, self._values)
        if isinstance(node, yaml.MappingNode):
            entries: dict[str, _Entry] = {}
            merged: set[str] = set()
            for key, value in node.value:
                at = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise BadPolicy(at, "a key is not a text")
                if key.tag == _TAG + "merge":
                    fields = self._merged(value, depth=depth)
                    entries |= fields
                    merged |= fields.keys()
                    continue
                former = entries.get(key.value)
                if former is not None and key.value not in merged:
                    twice = f"{quoted(key.value, limit=80)} is there twice, in line {former.line} too"
                    self.warnings.append(PolicyProblemLine(at, f"{twice}; this one counts"))
                merged.discard(key.value)
                entries[key.value] = _Entry(at, self.convert(value, depth=depth + 1))
            return _Value(line, entries)
        if isinstance(node, yaml.SequenceNode):
            return _Value(line, tuple(self.convert(item, depth=depth + 1) for item in node.value))
        return _Value(line, self._scalar(node))

    def _merged(self, node: yaml.Node, *, depth: int) -> dict[str, _Entry]:
        """The fields that a merge key brings: of a list, those of the first mapping that has them."""
        values = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, _Entry] = {}
        for value in reversed(values):
            fields = self.convert(value, depth=depth + 1).value
            if not isinstance(fields, dict):
                raise BadPolicy(value.start_mark.line + 1, 'a merge key ("<<") takes fields with values')
            merged |= fields
        return merged

    def _scalar(self, node: yaml.Node) -> object:
        kind = node.tag.removeprefix(_TAG)
        if kind not in ("int", "float", "bool", "null") or ":" in node.value:
            return str(node.value)  # also times and sexagesimal numbers: texts for Volcano's reader
        try:
            return self._constructor.construct_object(node)
        except (ValueError, OverflowError, LookupError) as exc:  # such as `!!bool x`, or 5,000 digits
            reason = f"{quoted(node.value, limit=40)} cannot be read as {kind}"
            raise BadPolicy(node.start_mark.line + 1, reason) from exc


class _Reader:
    """Values to a policy; collects the warnings and at most `faults_limit` faults."""

    def __init__(
        self, document: _Value, *, faults_limit: int, warnings: Iterable[PolicyProblemLine] = ()
    ) -> None:
        """`warnings`: those that are known already."""
        self._document = document
        self._faults_limit = faults_limit
        self._faults: list[PolicyProblemLine] = []
        self._warnings: list[PolicyProblemLine] = list(warnings)
        self._unknown_names: dict[tuple[str, str], NamedPart] = {}
        self._idle: list[NamedPart] = []
        #: The arguments of each plugin, with their lines.
        self._arguments: dict[str, Mapping[str, _Entry]] = {}

    def examine(self) -> Examination:
        policy: Policy | None = None
        with suppress(BadPolicy), self._collected_faults():
            policy = self._policy()
        found = Examination(
            policy=None,
            faults=tuple(self._faults),
            warnings=tuple(sorted(self._warnings, key=lambda place: place.line)),
            unknown=tuple(self._unknown_names.values()),
            idle=tuple(self._idle),
        )
        if policy is None or self._faults:
            return found
        kept = msgspec.structs.replace(
            policy,
            warnings=found.warnings[:WARNINGS_LIMIT],
            unknown=found.unknown[:WARNINGS_LIMIT],
            idle=found.idle,
        )
        return msgspec.structs.replace(found, policy=kept)

    @contextmanager
    def _collected_faults(self) -> Iterator[None]:
        """Faults in this part of the text do not end the reading of the rest, up to the limit."""
        try:
            yield
        except BadPolicy as exc:
            if exc.place not in self._faults:
                self._faults.append(exc.place)
            if len(self._faults) >= self._faults_limit:
                raise

    def _policy(self) -> Policy:
        fields = _mapping(self._document, "a policy")
        self._unknown(fields, _FIELDS, "field", "a policy")
        for name, why in FIELDS_WITHOUT_EFFECT.items():
            if name in fields and fields[name].value.value:
                self._add_idle(fields[name].line, "field", name, f'field "{name}" does nothing here: {why}')
        actions: tuple[str, ...] = ()
        with self._collected_faults():
            actions = self._actions(fields)
        plugins = self._plugins(fields)
        self._warn_of_priority(actions, plugins)
        enabled = {plugin.name: plugin for plugin in plugins if "enableNodeOrder" not in plugin.disabled}
        return Policy(
            actions=actions,
            plugins=plugins,
            binpack=self._binpack(enabled.get("binpack")),
            node_order=self._node_order(enabled.get("nodeorder")),
            overcommit_factor=self._overcommit_factor(plugins),
        )

    def _actions(self, fields: Mapping[str, _Entry]) -> tuple[str, ...]:
        entry = fields.get("actions")
        if entry is None:
            raise BadPolicy(self._document.line, f"actions is missing; write {_example_actions()}")
        value = entry.value.value
        if not isinstance(value, str):
            raise BadPolicy(entry.line, f"actions is {_kind(value)}, not a text; write {_example_actions()}")
        names = [name.strip() for name in value.split(",")]
        if "" in names:
            raise BadPolicy(entry.line, f"{_EMPTY_ACTION}; write {_example_actions()}")
        known = tuple(name for name in dict.fromkeys(names) if name in ACTIONS)
        for name in dict.fromkeys(names):
            if name in ACTIONS:
                self._note_meaning(entry.line, "action", name, ACTIONS[name])
            elif known:
                self._pass_over(entry.line, "action", name, ACTIONS)
        if not known:
            raise BadPolicy(entry.line, _no_action_known(names))
        return known

    def _plugins(self, fields: Mapping[str, _Entry]) -> tuple[Plugin, ...]:
        plugins: dict[str, Plugin] = {}
        with self._collected_faults():
            tiers = _items(fields.get("tiers"), "tiers")
            if not tiers:
                line = fields["tiers"].line if "tiers" in fields else self._document.line
                raise BadPolicy(
                    line, "tiers is missing or empty; write tiers: [{plugins: [{name: predicates}]}]"
                )
            for number, tier in enumerate(tiers, start=1):
                with self._collected_faults():
                    self._tier(tier, number, plugins)
        for plugin in plugins.values():
            self._note_plugin(plugin)
        return tuple(plugins.values())

    def _tier(self, tier: _Value, number: int, plugins: dict[str, Plugin]) -> None:
        """Adds the plugins of a tier to those of the tiers before."""
        in_tier = _mapping(tier, f"tier {number}")
        self._unknown(in_tier, ("plugins",), "field", f"tier {number}")
        names: set[str] = set()
        hierarchy: Plugin | None = None
        for item in _items(in_tier.get("plugins"), f"plugins of tier {number}"):
            with self._collected_faults():
                plugin = self._plugin(item, tier=number)
                if plugin is None:
                    continue
                before = plugins.get(plugin.name)
                plugins[plugin.name] = self._joined(before, plugin) if before is not None else plugin
                self._arguments[plugin.name] = _arguments(item)
                names.add(plugin.name)
                if plugin.name == "drf" and "enableHierarchy" in plugin.enabled:
                    hierarchy = plugin
        if hierarchy is not None and "proportion" in names:
            raise BadPolicy(
                hierarchy.line, "drf with enableHierarchy and proportion exclude each other in one tier"
            )

    def _joined(self, before: Plugin, again: Plugin) -> Plugin:
        """A plugin that is listed twice: Volcano asks it for both tiers, and starts it with the arguments of
        each, so that the later ones count.
        """
        self._warn(
            again.line,
            f'plugin "{again.name}" is listed twice, in line {before.line} too; the arguments here count, '
            "and a "
            "switch is off only where each says false",
        )
        return Plugin(
            name=before.name,
            tier=before.tier,
            line=before.line,
            disabled=before.disabled & again.disabled,
            enabled=before.enabled | again.enabled,
            arguments=again.arguments,
        )

    def _plugin(self, item: _Value, *, tier: int) -> Plugin | None:
        """The plugin; None where it is not known."""
        fields = _mapping(item, "a plugin")
        name = fields["name"].value.value if "name" in fields else None
        if not isinstance(name, str) or not name:
            raise BadPolicy(item.line, 'a plugin has no name; write "- name: binpack"')
        if name not in PLUGINS:
            self._pass_over(fields["name"].line, "plugin", name, PLUGINS)
            return None
        self._unknown(fields, ("name", "arguments", *SWITCHES), "switch", f'plugin "{name}"')
        switches = {key: _switch(key, fields[key]) for key in SWITCHES if key in fields}
        arguments = _arguments(item)
        return Plugin(
            name=name,
            tier=tier,
            line=item.line,
            disabled=frozenset(key for key, on in switches.items() if on is False),
            enabled=frozenset(key for key, on in switches.items() if on is True),
            arguments={key: _plain(entry.value) for key, entry in arguments.items()},
        )

    def _note_plugin(self, plugin: Plugin) -> None:
        """Lists the plugin, or its parts, if they have no effect."""
        meaning = PLUGINS[plugin.name]
        if meaning.effect in WITHOUT_EFFECT:  # and so have its arguments and switches none
            self._note_meaning(plugin.line, "plugin", plugin.name, meaning)
            return
        if plugin.arguments and plugin.name not in WITH_ARGUMENTS:
            text = f'arguments of plugin "{plugin.name}" do nothing here'
            self._add_idle(plugin.line, "arguments", plugin.name, text)
        for switch in sorted(plugin.disabled - APPLIED_SWITCHES.get(plugin.name, frozenset())):
            text = f'{switch} of plugin "{plugin.name}" does nothing here'
            self._add_idle(plugin.line, "switch", f"{switch} of {plugin.name}", text)

    def _note_meaning(self, line: int, kind: str, name: str, meaning: Meaning) -> None:
        if meaning.effect in WITHOUT_EFFECT:
            self._add_idle(line, kind, name, f'{kind} "{name}" {meaning.effect.value}: {meaning.text}')

    def _add_idle(self, line: int, kind: str, name: str, text: str) -> None:
        self._idle.append(NamedPart(line, kind, name, text))

    def _pass_over(self, line: int, kind: str, name: str, known: Iterable[str]) -> None:
        """Lists an unknown name, once."""
        if (kind, name) in self._unknown_names:
            return
        near = _near(name, known) if len(self._unknown_names) < NEAREST_LIMIT else ""
        text = f"{kind} {quoted(name, limit=80)} is not known here, and is passed over{near}"
        self._unknown_names[kind, name] = NamedPart(line, kind, name, printable(text, limit=400))

    def _binpack(self, plugin: Plugin | None) -> Binpack | None:
        if plugin is None:
            return None
        arguments = self._arguments[plugin.name]
        prefix = "binpack.resources."
        listed = self._resource_names(arguments.get("binpack.resources"))
        resources = {name: self._resource_weight(arguments, prefix + name) for name in listed}
        resources["cpu"] = self._resource_weight(arguments, "binpack.cpu")
        resources["memory"] = self._resource_weight(arguments, "binpack.memory")
        known = ["binpack.weight", "binpack.cpu", "binpack.memory", "binpack.resources"]
        for key, entry in arguments.items():
            if key.startswith(prefix) and key.removeprefix(prefix) not in listed:
                name = key.removeprefix(prefix)
                self._warn(entry.line, f'{quoted(key)} counts only if binpack.resources lists "{name}"')
                known.append(key)
        self._unknown(arguments, (*known, *(prefix + name for name in listed)), "argument", "binpack")
        weight = self._weight(arguments, "binpack.weight", default=1)
        return Binpack(weight=weight, resources=resources) if weight else None

    def _resource_names(self, entry: _Entry | None) -> list[str]:
        value = entry.value.value if entry else ""
        if entry is not None and not isinstance(value, str):
            self._warn(entry.line, f"binpack.resources is {_kind(value)}, not a text, and is ignored")
        names = value.split(",") if isinstance(value, str) else []
        return [name.strip() for name in names if name.strip()]

    def _node_order(self, plugin: Plugin | None) -> NodeOrder | None:
        if plugin is None:
            return None
        arguments = self._arguments[plugin.name]
        self._unknown(arguments, NODE_ORDER_ARGUMENTS, "argument", "nodeorder")
        defaults = NodeOrder()
        weights = {
            field: self._weight(arguments, key, default=getattr(defaults, field))
            for key, field in NODE_ORDER_ARGUMENTS.items()
        }
        return NodeOrder(**weights) if any(weights.values()) else None

    def _warn_of_priority(self, actions: Collection[str], plugins: Iterable[Plugin]) -> None:
        """Warns if plugin `priority` is beside action `reclaim`, and no switch says whether it gates that."""
        plugin = next((each for each in plugins if each.name == "priority"), None)
        switch = "enableReclaimable"
        if plugin is None or "reclaim" not in actions or switch in plugin.disabled | plugin.enabled:
            return
        self._warn(
            plugin.line,
            "plugin priority does not gate action reclaim, as in Volcano: pods of any priority give back "
            f"what their queue borrows; write {switch}: true beside it to have it do so, or false",
        )

    def _overcommit_factor(self, plugins: Iterable[Plugin]) -> Fraction | None:
        plugin = next((each for each in plugins if each.name == "overcommit"), None)
        if plugin is None:
            return None
        arguments = self._arguments[plugin.name]
        self._unknown(arguments, (OVERCOMMIT_FACTOR,), "argument", "overcommit")
        factor, entry = DEFAULT_OVERCOMMIT, arguments.get(OVERCOMMIT_FACTOR)
        if entry is not None:
            value = entry.value.value
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._warn(entry.line, f"{OVERCOMMIT_FACTOR} is {_kind(value)}, not a number; 1.2 is used")
            elif not 1 <= value <= WEIGHT_LIMIT:
                self._warn(entry.line, f"{OVERCOMMIT_FACTOR} is not from 1 to {WEIGHT_LIMIT:,}; 1.2 is used")
            else:
                factor = Fraction(str(value))
        return None if "enableJobEnqueued" in plugin.disabled else factor

    def _resource_weight(self, arguments: Mapping[str, _Entry], key: str) -> int:
        entry = arguments.get(key)
        value = entry.value.value if entry else None
        if entry is not None and isinstance(value, int) and not isinstance(value, bool) and value < 0:
            self._warn(entry.line, f"{quoted(key)} is negative; 1 is used")
            return 1
        return self._weight(arguments, key, default=1)

    def _weight(self, arguments: Mapping[str, _Entry], key: str, *, default: int) -> int:
        entry = arguments.get(key)
        if entry is None:
            return default
        value = entry.value.value
        if isinstance(value, bool) or not isinstance(value, int):
            self._warn(
                entry.line,
                f"{quoted(key)} is {_kind(value)}, not a whole number; the default {default} is used",
            )
            return default
        with self._collected_faults():
            if not 0 <= value <= WEIGHT_LIMIT:
                raise BadPolicy(entry.line, f"{quoted(key)}: a weight is from 0 to {WEIGHT_LIMIT:,}")
        return value

    def _unknown(self, fields: Mapping[str, _Entry], known: Iterable[str], what: str, where: str) -> None:
        names = set(known)
        for key, entry in fields.items():
            if key not in names:
                # A likely name takes a while to find, so only the first warnings have one.
                near = _near(key, names) if len(self._warnings) < WARNINGS_LIMIT else ""
                self._warn(entry.line, f"{where} has no {what} {quoted(key, limit=80)}; it is ignored{near}")

    def _warn(self, line: int, reason: str) -> None:
        if len(self._warnings) < VALUE_LIMIT:
            self._warnings.append(PolicyProblemLine(line, printable(reason, limit=400)))


def _plain(value: _Value) -> object:
    """The value without its lines."""
    if isinstance(value.value, dict):
        return {key: _plain(entry.value) for key, entry in value.value.items()}
    return tuple(map(_plain, value.value)) if isinstance(value.value, tuple) else value.value


def _mapping(value: _Value, what: str) -> Mapping[str, _Entry]:
    if value.value is None:
        return {}
    if not isinstance(value.value, dict):
        raise BadPolicy(value.line, f"{what} is {_kind(value.value)}, not fields with values")
    return value.value


def _arguments(plugin: _Value) -> Mapping[str, _Entry]:
    fields = _mapping(plugin, "a plugin")
    return _mapping(fields["arguments"].value, "arguments") if "arguments" in fields else {}


def _items(entry: _Entry | None, what: str) -> tuple[_Value, ...]:
    if entry is None or entry.value.value is None:
        return ()
    if not isinstance(entry.value.value, tuple):
        raise BadPolicy(entry.line, f'{what}: {_kind(entry.value.value)}, not a list ("- ...")')
    return entry.value.value


def _switch(key: str, entry: _Entry) -> bool | None:
    value = entry.value.value
    if value is not None and not isinstance(value, bool):
        raise BadPolicy(entry.line, f"{key} is {_kind(value)}; write true or false")
    return value


def _kind(value: object) -> str:
    if isinstance(value, str):
        return f"the text {quoted(value, limit=40)}"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**20:
        return "a number of over 20 digits"
    return "null" if value is None else str(value).lower()


_EMPTY_ACTION = "an action is missing between two commas, or actions is empty"


def _no_action_known(names: Sequence[str]) -> str:
    """Why a policy has no action: none of its names, of which there is one at least, is known."""
    first = names[0]
    near = _near(first, ACTIONS)
    return f"there is no action {quoted(first, limit=80)}{near or '; there are ' + ', '.join(ACTIONS)}"


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name[:80], list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _example_actions() -> str:
    return 'actions: "enqueue, allocate, backfill"'
