"""The command line, read as kubectl's own (github.com/spf13/pflag) reads it.

Promises
- `--flag value`, `--flag=value`, `-f value`, `-fvalue`, `-f=value`; flags and names in any order;
  `--` ends flags.
- A flag with a `bare` value takes another one only behind `=`: `delete --wait b` deletes `b`.
- The last one wins, except for flags that may be repeated.
- What is wrong is said in pflag's words, with the flag's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kubectl_queue.cli import flag_values as values
from kubectl_queue.cli import spelling
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.types import type_of
from queues.membership import valid_name
from queues.messages import NAME_RULE
from queues.text import any_of

#: Flags for a stop that begins later, which no command has.
_LATER = frozenset({"at", "from", "start", "start-at"})
#: Words that other tools and people use for our flags.
_OTHERS: Mapping[str, str] = {
    word: flag
    for flag, words in {
        "reason": "because comment message msg note why",
        "for": "duration during length period time ttl",
        "until": "end expires till to",
        "yes": "assume-yes confirm force no-prompt",
        "selector": "filter label labels",
        "output json": "json",
        "output yaml": "yaml",
        "output wide": "wide",
        "wait": "block sync",
        "watch": "follow",
        "dry-run": "dry check plan preview simulate",
        "namespace": "ns",
        "as": "impersonate",
        "context": "ctx",
        "capability": "limit limits max quota",
        "parent": "above under",
    }.items()
    for word in words.split()
}
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag. `bare`: the text it stands for without a value. `read`: raises ValueError."""

    name: str
    help: str
    short: str = ""
    default: Any = ""
    bare: str | None = None
    read: Callable[[str], Any] = str
    repeated: bool = False
    value: str = "TEXT"

    @property
    def shown(self) -> str:
        return f"-{self.short}, --{self.name}" if self.short else f"--{self.name}"


def bool_flag(name: str, help: str, *, default: bool = False, short: str = "") -> Flag:
    """A flag that is true or false, true when bare."""
    return Flag(
        name=name,
        help=help,
        short=short,
        default=default,
        bare="true",
        read=values.parse_bool,
        value="true|false",
    )


def duration_flag(name: str, help: str, *, default: timedelta | None = None) -> Flag:
    return Flag(name=name, help=help, default=default, read=values.parse_duration, value="DURATION")


def duration_with_unit_flag(name: str, help: str) -> Flag:
    """A duration with a unit (30m); a bare number is refused, since it could be minutes or seconds."""

    def read(text: str) -> timedelta:
        if text.isascii() and text.isdigit():
            raise ValueError(f"it needs a unit, s, m, h or d, as in --{name} 30m")
        if values.is_clock(text):
            raise ValueError(f"it is a time: --until {text}; a duration has a unit, as in --{name} 30m")
        return values.parse_duration(text)

    return Flag(name=name, help=help, default=None, read=read, value="DURATION")


def int_flag(name: str, help: str) -> Flag:
    return Flag(name=name, help=help, default=None, read=_number, value="N")


def choice_flag(name: str, help: str, *, among: Sequence[str]) -> Flag:
    """One of a few words, however capitalised; the value is the word as it is spelt in `among`."""
    return Flag(name=name, help=help, read=lambda text: read_choice(text, among=among), value="|".join(among))


@dataclass(frozen=True)
class Flags:
    """The flags of one command line: those given, over the defaults."""

    flags: Mapping[str, Flag]
    given: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the flag is on the command line, whatever its value."""
        return name in self.given

    def text(self, name: str) -> str:
        return str(self._get(name) or "")

    def on(self, name: str) -> bool:
        return bool(self._get(name))

    def duration(self, name: str) -> timedelta | None:
        value = self._get(name)
        return value if isinstance(value, timedelta) else None

    def many(self, name: str) -> tuple[str, ...]:
        return tuple(self._get(name) or ())

    def value(self, name: str) -> Any:
        return self._get(name)

    def _get(self, name: str) -> Any:
        """The value; None for a flag that this command does not have."""
        if name in self.given:
            return self.given[name]
        return self.flags[name].default if name in self.flags else None


def parse(words: Iterable[str], flags: Sequence[Flag], *, command: str) -> Flags:
    """Read a command line. Raises UsageError, which refers to the --help of `command`."""
    reading = _Reading(flags, command=command)
    waiting = list(reversed(list(words)))
    while waiting:
        reading.take(waiting.pop(), waiting)
    return Flags(reading.by_name, reading.given, tuple(reading.names))


def first_name(words: Sequence[str], flags: Sequence[Flag]) -> int:
    """The index of the first word that is no flag and no value of one of `flags`; -1 if there is none."""
    valued = {form for flag in flags if flag.bare is None for form in (f"--{flag.name}", f"-{flag.short}")}
    place = 0
    while place < len(words) and words[place].startswith("-"):
        place += 2 if words[place] in valued else 1
    return place if place < len(words) else -1


class _Reading:
    """The state of one pass over a command line."""

    def __init__(self, flags: Sequence[Flag], *, command: str) -> None:
        self.by_name = {flag.name: flag for flag in flags}
        self.by_short = {flag.short: flag for flag in flags if flag.short}
        self.given: dict[str, Any] = {}
        self.names: list[str] = []
        self.command = command

    def take(self, word: str, rest: list[str]) -> None:
        """Take one word and, where it is a flag that needs one, its value from the end of `rest`."""
        if word == "--":
            self.names.extend(reversed(rest))
            rest.clear()
        elif word.startswith("--"):
            self._long(word[2:], rest)
        elif word.startswith("-") and word != "-":
            self._short(word[1:], rest)
        else:
            self.names.append(word)

    def _long(self, word: str, rest: list[str]) -> None:
        name, given, text = word.partition("=")
        flag = self.by_name.get(name)
        if flag is None:
            raise self._wrong(f"unknown flag: {_plain(f'--{name}')}{self._did_you_mean(name)}")
        if given:
            self._set(flag, text)
        elif flag.bare is not None:
            self._set(flag, flag.bare)
        else:
            self._set(flag, self._next(rest, f"--{name}"))

    def _short(self, letters: str, rest: list[str]) -> None:
        flag = self.by_short.get(letters[0])
        if flag is None:
            text = f"unknown shorthand flag: '{letters[0]}' in {_plain(f'-{letters}')}"
            raise self._wrong(text + self._did_you_mean(letters.partition("=")[0]))
        tail = letters[1:]
        if tail.startswith("="):
            self._set(flag, tail[1:])
        elif flag.bare is not None:
            self._set(flag, flag.bare)
            if tail:
                self._short(tail, rest)
        else:
            self._set(flag, tail or self._next(rest, f"'{letters[0]}' in -{letters}"))

    def _next(self, rest: list[str], shown: str) -> str:
        if not rest:
            raise self._wrong(f"flag needs an argument: {shown}")
        return rest.pop()

    def _set(self, flag: Flag, text: str) -> None:
        try:
            value = flag.read(text)
        except ValueError as exc:
            raise self._wrong(
                f'invalid argument {values.quoted(text)} for "{flag.shown}" flag: {exc}'
            ) from exc
        self.given[flag.name] = (*self.given.get(flag.name, ()), value) if flag.repeated else value

    def _did_you_mean(self, name: str) -> str:
        """What a flag that is not there may stand for; of one letter nothing is near."""
        word = name.lower()
        if name in ("A", "all-namespaces"):
            return ": queues have no namespace, and all of them are shown without it"
        if name in _LATER and "until" in self.by_name:
            return ": a stop that begins later is a change window: docs/tasks/stop-by-the-calendar.md"
        other = _OTHERS.get(word, "")
        if other and other.partition(" ")[0] in self.by_name:
            return spelling.did_you_mean([f"--{other}"]).rstrip("\n")
        near = (
            spelling.close_matches(word, self.by_name, near=spelling.NEAR_IN_A_LIST) if len(word) > 1 else []
        )
        return spelling.did_you_mean(f"--{flag}" for flag in near).rstrip("\n")

    def _wrong(self, message: str) -> UsageError:
        return UsageError(message, see=self.command)


def _plain(flag: str) -> str:
    return values.quoted(flag)[1:-1]


def _number(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError("it must be a whole number of 18 digits at most")
    return int(text)


def read_choice(text: str, *, among: Sequence[str]) -> str:
    """The word of `among`, however `text` is capitalised. Raises ValueError."""
    for word in among:
        if word.lower() == text.lower():
            return word
    raise ValueError(f"it must be {any_of(among)}")


def selected(flags: Flags, *, command: str) -> tuple[str, ...]:
    """The names given, or none with --all or --selector. Raises UsageError for neither and for both."""
    selects = flags.on("all") or bool(flags.text("selector"))
    if flags.names and selects:
        raise UsageError("name cannot be provided when a selector or --all is specified", see=command)
    if not flags.names and not selects:
        raise UsageError("at least one NAME is required, or --all, or --selector", see=command)
    return names(flags.names, command=command)


def names(given: Sequence[str], *, command: str) -> tuple[str, ...]:
    """Names as given or as `-o name` prints them, each once. Raises UsageError."""
    return tuple(dict.fromkeys(_queue_name(_bare(word), see=command) for word in given))


def _queue_name(word: str, *, see: str) -> str:
    """Raises UsageError, for a pod or a workload with where to find its queue."""
    kind, _, name = word.partition("/")
    kinds = [kind] if type_of(kind) is not None else spelling.near_kinds(kind) if name else []
    if valid_name(name) and kinds:
        asked = f"kubectl queue why {kinds[0]}/{name}"
        raise UsageError(f"{values.quoted(word)} is no queue; which queue it is in says: {asked}", see=see)
    return checked_name(word, see=see)


def checked_name(name: str, *, see: str) -> str:
    """The name, if an object may have it. Else raises UsageError: the server could only say "not found"."""
    if not name:
        raise UsageError("resource name may not be empty", see=see)
    if not valid_name(name):
        rule = f"{NAME_RULE}, at most 253 of them"
        raise UsageError(
            f"invalid resource name {values.quoted(name)}: {_what_is_wrong(name)}{rule}", see=see
        )
    return name


def _what_is_wrong(name: str) -> str:
    """The first character that no name has, or the length; empty where it is neither."""
    character = _NOT_IN_NAMES.search(name)
    if character:
        return f"{values.quoted(character[0])} may not be in it; "
    return f"it has {len(name)} characters; " if len(name) > 253 else ""


def _bare(word: str) -> str:
    kind, slash, name = word.partition("/")
    return name if slash and kind.partition(".")[0] in {"queue", "queues", "q"} else word
