"""The texts of conditions and validations that leave out nothing that we need: known by their digests.

CEL is not evaluated here. A text that an admin has edited could leave out anything. So only texts that we
have shipped count, but for the edits that the documentation asks for:

| edit                                                                | where it is documented              |
|---------------------------------------------------------------------|-------------------------------------|
| label `kueue.x-k8s.io/queue-name` in a list of labels               | manifests/webhooks/mutating.yaml    |
| the names in a list of schedulers                                   | the same; `ownedSchedulers` (chart) |
| the names in a list of users                                        | manifests/policies/pod-statuses.yaml |
| our own user: the namespace in it                                   | `namespace` (chart)                 |
| white space                                                         | whatever writes YAML                |

`normal_form` has these replaced, and says which names stood there. `digest` is of that form.

The tables have each text of this version, and of those before it: in an upgrade their webhooks stay until its
last step (docs/operating/upgrade.md). A test compares them with `manifests`, and prints what to add. The
former digest stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2s
from typing import NamedTuple

from queues.membership import KUEUE_LABEL

_LIST = re.compile(r"\[\s*('[^']*'(?:\s*,\s*'[^']*')*)\s*\]")
_WORD = re.compile(r"'([^']*)'")
_SPACE = re.compile(r"\s+")
#: What stands before a list whose names an admin chooses.
_SCHEDULERS = re.compile(r"schedulerName(\.orValue\(''\))? in $")
_USERS = re.compile(r"request\.userInfo\.username in $")


class NormalForm(NamedTuple):
    """A text without the names that an admin chooses.

    `schedulers`: those that are in every list of schedulers; None without such a list. `kueue`: whether
    Kueue's label is in each list of labels that name queues; None without such a list.
    """

    text: str
    schedulers: frozenset[str] | None = None
    kueue: bool | None = None

    @property
    def digest(self) -> str:
        return digest(self.text)


def normal_form(expression: str, *, own_user: str) -> NormalForm:
    """`own_user`: of the server, in whose place stands `OWN`."""
    text = _SPACE.sub(" ", expression).strip().replace(f"'{own_user}'", "'OWN'")
    schedulers: frozenset[str] | None = None
    kueue: bool | None = None
    parts, end = list[str](), 0
    for found in _LIST.finditer(text):
        before, names = text[end : found.start()], frozenset(_WORD.findall(found[1]))
        parts.append(before)
        end = found.end()
        if _SCHEDULERS.search(before):
            schedulers = names if schedulers is None else schedulers & names
            parts.append("[SCHEDULERS]")
        elif _USERS.search(before):
            parts.append("[USERS]")
        else:
            if _VOLCANO_LABEL in names and _GROUP not in names:
                kueue = (kueue is not False) and KUEUE_LABEL in names
            parts.append("[" + ", ".join(sorted(names - {KUEUE_LABEL})) + "]")
    return NormalForm("".join([*parts, text[end:]]), schedulers, kueue)


_VOLCANO_LABEL, _GROUP = "volcano.sh/queue-name", "scheduling.k8s.io/group-name"


def digest(text: str) -> str:
    return blake2s(text.encode(), digest_size=6).hexdigest()


#: The conditions of an entry, or of a policy, by the name of that.
CONDITIONS: Mapping[str, frozenset[str]] = {
    "members.pods.sluice.dev": frozenset({"189bf4f4e5aa", "36506d96f4f1", "ad5230a2b2dd"}),
    "namespaces.pods.sluice.dev": frozenset({"189bf4f4e5aa"}),
    "members.workloads.sluice.dev": frozenset({"364c785a7702", "66b875b64931"}),
    "namespaces.workloads.sluice.dev": frozenset({"66b875b64931"}),
    "jobs.workloads.sluice.dev": frozenset({"004ad0feb6cf"}),
    "members.jobsets.sluice.dev": frozenset({"004ad0feb6cf", "ad9fa31bd641"}),
    "namespaces.jobsets.sluice.dev": frozenset({"004ad0feb6cf"}),
    "podgroups.sluice.dev": frozenset({"fd3e8923262e"}),
    "namespaces.sluice.dev": frozenset({"399c1d3041ea", "e802bb31b325"}),
    "commands.sluice.dev": frozenset({"8c8e5fd1cd06"}),
    "pods.sluice.dev": frozenset({"cba8cd676f2a", "b4ef9c8e0b29", "18f93b30b5c1"}),
    "unasked.pods.sluice.dev": frozenset({"e9972e7e0a9c", "340f842bc218"}),
    "sluice-bindings": frozenset({"bd3f1b936387"}),
    "sluice-commands": frozenset({"8e24b774fcf1"}),
    "sluice-namespaces": frozenset({"cba8cd676f2a"}),
    "queues.sluice.dev": frozenset({"3178d6f52628", "27e1f7a6b8fa"}),
    "unlabelled.pods.sluice.dev": frozenset({"189bf4f4e5aa"}),
    "sluice-pod-statuses": frozenset({"96eb3201c4e3"}),
    "sluice-unmanaged": frozenset({"cba8cd676f2a", "143e8d165e1b"}),
}


class Edition(NamedTuple):
    """All that a version's policy validates, and the variables that it uses for that (`NAME = TEXT`)."""

    validations: frozenset[str]
    variables: frozenset[str] = frozenset()


#: The editions of each policy, by its name.
EDITIONS: Mapping[str, tuple[Edition, ...]] = {
    "sluice-bindings": (
        Edition(frozenset({"c4f062d4854e"}), frozenset({"299526805a39"})),
        Edition(frozenset({"4f0bfb11e37b"})),
    ),
    "sluice-commands": (Edition(frozenset({"efd2dd34d781", "5da908f4879f", "9081ec9dd3de"})),),
    "sluice-namespaces": (Edition(frozenset({"cee1b76d3088"}), frozenset({"b07ae691ba4c", "ae276c961986"})),),
    "sluice-queues": (
        Edition(frozenset({"41e5f15c44ee"}), frozenset({"36f7ee485c7a", "b2bc2188704b", "60de09e91273"})),
        Edition(
            frozenset({"41e5f15c44ee", "fb1e4bd912f2"}),
            frozenset({"36f7ee485c7a", "b2bc2188704b", "60de09e91273"}),
        ),
        Edition(
            frozenset({"41e5f15c44ee", "a2c1de9562dc", "cc432d8d0b9f", "dc8ae8d5fd7e", "ef20a4a0f212"}),
            frozenset(
                {
                    "0844513064ff",
                    "0d6b00d8191c",
                    "11f758e1e2de",
                    "212a5d6a862d",
                    "36aeb286d717",
                    "54a5cce146b9",
                    "5be7880f0749",
                    "79e0d50c2ec0",
                    "7d22f9e2a52e",
                    "8f1234e1ef0c",
                    "fbdb9539815e",
                }
            ),
        ),
    ),
    "sluice-pod-statuses": (Edition(frozenset({"d924b1f07eda", "0a1643b94258"})),),
    "sluice-unmanaged": (Edition(frozenset({"4f0bfb11e37b"})),),
}
