"""What the tests of the rules share: short ways to write queues, and random trees of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import msgspec
from hypothesis import strategies as st

from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.tree import Tree
from queues.verdict import Verdict, verdict
from tests.support.examples import examples

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

OPEN, SUSPENDED, CLOSED = Desired.OPEN, Desired.SUSPENDED, Desired.CLOSED
NONE, HOLD, DRAIN = StopPolicy.NONE, StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN

#: Enough to find what there is to find in trees of eight queues, and quick; a busy machine is no failure.
MODEST = examples(80)

#: Reasons nobody should write, and somebody will.
HOSTILE = {
    "control characters": "a\x00b\x07c\x1b[31mred\x1b[0m\x7f\x85",
    "line ends": "one\ntwo\r\nthree\u2028four\u2029five\x0bsix",
    "tabs": "a\tb\t\tc",
    "huge": "x" * 1_000_000,
    "huge and blank": " \n" * 500_000,
    "right to left": "\u202egnp.exe\u202c \u2066isolate\u2069 \u05d0\u05d1",
    "invisible": "zero\u200bwidth\u200d\ufeffjoiner\u00ad",
    "surrogate": "lone \ud800 half",
    "private use": "\ue000\U0010ffff",
    "beyond the first plane": "\U0001f468\u200d\U0001f680 \U00020000",
    "stacked marks": "Z" + "\u0301" * 500,
    "quotes": "\"'`$(reboot)\\",
    "format": "{cause} %s %(x)s {0}",
}


def queue(name: str, parent: str | None = "root", **wishes: Any) -> Queue:
    """A queue; `root` is above it unless told otherwise."""
    return Queue(name=name, parent=None if name == "root" else parent, uid=f"uid-{name}", **wishes)


def tree(*queues: Queue) -> Tree:
    return Tree({one.name: one for one in queues})


def line(*chain: Queue) -> Tree:
    """A tree that is one chain, its topmost queue first, hung under `root`."""
    above = ["root", *(one.name for one in chain)]
    return tree(*(_under(parent, one) for parent, one in zip(above, chain, strict=False)))


def asked(of: Tree, name: str, *, live: bool = False, now: datetime = NOW) -> Verdict:
    return verdict(name, tree=of, live=live, now=now)


def plain(text: str) -> bool:
    """Whether a text is one line of printable characters: no control, no line end, no half of a pair."""
    return text.isprintable()


def _under(parent: str, one: Queue) -> Queue:
    return msgspec.structs.replace(one, parent=parent)


NAMES = ("root", "default", "a", "b", "c", "d", "e", "f")
#: Parents that a queue may name; "ghost" never exists.
PARENTS = (*NAMES, "ghost")
RESUMES = (None, NOW - SECOND, NOW, NOW + SECOND, NOW + 3600 * SECOND)


#: What a queue may say beside its name, the plainest first. One draw takes one of these: to draw each field
#: by itself is most of what a test of rules costs.
_SPECS = tuple(
    product(
        *(("u1", "u2"), (1, 2, 3), PARENTS, (OPEN, SUSPENDED, CLOSED, OPEN)),
        *((NONE, HOLD, DRAIN, NONE), RESUMES, ("", "upgrade"), (False, True)),
    )
)


def _queue_of(name: str, number: int) -> Queue:
    uid, generation, parent, desired, stop_policy, resume_at, reason, terminating = _SPECS[number]
    return Queue(
        name=name,
        uid=uid,
        generation=generation,
        terminating=terminating,
        parent=parent,
        desired=desired,
        stop_policy=stop_policy,
        resume_at=resume_at,
        reason=reason,
    )


_BY_NAME = {name: st.integers(0, len(_SPECS) - 1).map(partial(_queue_of, name)) for name in NAMES}
_ANY = st.one_of(*_BY_NAME.values())
_FORESTS = st.fixed_dictionaries({}, optional=_BY_NAME)


def random_queues(name: str | None = None) -> st.SearchStrategy[Queue]:
    """Any queue, sane or not: its own parent, a parent that is not there, `root` under another."""
    return _ANY if name is None else _BY_NAME[name]


def random_forests() -> st.SearchStrategy[Mapping[str, Queue]]:
    """Queues by name, missing parents and cycles included; `root` may be missing too."""
    return _FORESTS


def random_members() -> st.SearchStrategy[frozenset[str]]:
    """The queues that have live members of their own."""
    return st.frozensets(st.sampled_from(NAMES))


def random_times() -> st.SearchStrategy[datetime]:
    return st.sampled_from([at for at in RESUMES if at is not None])
