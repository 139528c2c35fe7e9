"""Words that are near another one: "Did you mean this?" """

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kubectl_queue.objects.types import spellings

#: The ratio of difflib; about one letter in six may differ.
_NEAR = 0.8
_AT_MOST = 3


#: For words from a short fixed list: two letters of four may be exchanged.
NEAR_IN_A_LIST = 0.75


def close_matches(word: str, among: Iterable[str], *, near: float = _NEAR) -> list[str]:
    """The words that differ from this one by little, nearest first. `near`: the least ratio of difflib."""
    return difflib.get_close_matches(word[:253], list(among), n=_AT_MOST, cutoff=near)


def near_kinds(word: str) -> list[str]:
    """The types of objects that a word may stand for, in the singular, the likeliest first; with or without
    a group behind it.
    """
    known = spellings()
    near = close_matches(word.lower().partition(".")[0], known, near=NEAR_IN_A_LIST)
    return list(dict.fromkeys(known[each] for each in near))


def did_you_mean(words: Iterable[str]) -> str:
    """The question as kubectl words it; empty where there is no word."""
    suggestions = "".join(f"\t{word}\n" for word in words)
    return f"\n\nDid you mean this?\n{suggestions}" if suggestions else ""
