"""Whether webhooks, policy and server select the same namespaces (setting `managed_namespaces`).

Each has the selector written down (`manifests/managed-namespaces`), and nothing else keeps them alike. It is
looked at once, at the start. Where they differ the server starts all the same, and says it in the log: stops
hold for what was admitted, and while an installation is changed one of them comes before the others.

| where                                    | what it has to select                                           |
|------------------------------------------|-----------------------------------------------------------------|
| each entry of our webhook configurations | what the setting does, beside what every installation asks for  |
| but `NOT_NARROWED`                       | (`_is_common`)                                                  |
| the bindings of policy `POLICY`          | the opposite: one for each requirement that a namespace may     |
|                                          | miss                                                            |

What may not be read is not compared, nor is a configuration that is not there: it may come after the server.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import NotFound, Refused
from queues.apimachinery.label_selectors import BadSelector, Operator
from queues.namespace_selectors import NAME_LABEL, NamespaceSelector
from queues.registration.selectors import Term, Terms, terms_of
from queues.text import join_limited
from queues.well_known import MEMBER_NAMESPACE

API = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    f"{API}/mutatingwebhookconfigurations/sluice",
    f"{API}/validatingwebhookconfigurations/sluice",
)
BINDINGS = f"{API}/validatingadmissionpolicybindings"
POLICY = "sluice-unmanaged"
#: Entries for what is in no namespace, for namespaces themselves, for Commands and the policies' ConfigMap;
#: and for binds, since the guard holds for members that came before their namespace lost its label.
NOT_NARROWED = frozenset(
    f"{name}.sluice.dev"
    for name in (
        *("queues", "namespaces", "labels.namespaces", "metadata.namespaces"),
        *("commands", "policies", "binds"),
    )
)
WAY_OUT = (
    "give webhooks, policy and setting the same selector, or none of them one, as "
    "docs/operating/managed-namespaces.md says, and restart the server"
)
#: How many names or requirements are shown.
SHOWN = 12

log = logging.getLogger(__name__)


def selector_differences(client: Client, setting: NamespaceSelector | None) -> Iterator[str]:
    """A line for each difference, with the way out. `setting`: None for every namespace."""
    try:
        entries = {
            entry.name: entry.namespace_selector
            for path in CONFIGURATIONS
            for entry in _configuration_at(client, path).webhooks
        }
        bindings = [
            binding.spec.match_resources.namespace_selector
            for binding in decode_response(client.get(BINDINGS), _bindings).items
            if binding.spec.policy_name == POLICY
        ]
        yield from differences(setting, entries=entries, bindings=bindings)
    except (Refused, BadSelector) as exc:
        log.warning("managed_namespaces cannot be compared with the webhooks and the policy: %s", exc)


def differences(
    setting: NamespaceSelector | None, *, entries: Mapping[str, Any], bindings: Collection[Any]
) -> Iterator[str]:
    """The same of namespace selectors as JSON has them: of entries by their names, and of bindings."""
    wanted = frozenset(
        Term(each.key, each.operator, each.values) for each in (setting.requirements if setting else ())
    )
    differing: dict[Terms, list[str]] = {}
    for name, selector in entries.items():
        if name not in NOT_NARROWED and (terms := _terms(selector)) != wanted:
            differing.setdefault(terms, []).append(name)
    for terms, names in differing.items():
        yield (
            f"{join_limited(names, limit=SHOWN)} of the webhooks: {_shown(terms)}; "
            f"setting managed_namespaces: {_shown(wanted)}; {WAY_OUT}"
        )
    missed = {frozenset({term.opposite}) for term in wanted}
    bound = {_terms(selector) for selector in bindings}
    if bound != missed:
        yield f"policy {POLICY} is bound to {_any_of(bound)}, and not to {_any_of(missed)}; {WAY_OUT}"


def _terms(selector: Any) -> Terms:
    return frozenset(term for term in terms_of(selector) if not _is_common(term))


def _is_common(term: Term) -> bool:
    """Whether every installation has it: some namespaces are exempt, and two entries share out the others."""
    is_exemption = (
        term.key == NAME_LABEL and term.operator is Operator.NOT_IN and "kube-system" in term.values
    )
    return is_exemption or term.key == MEMBER_NAMESPACE


def _shown(terms: Terms) -> str:
    if not terms:
        return "every namespace"
    return "namespaces with " + join_limited(sorted(map(str, terms)), limit=SHOWN)


def _any_of(selections: Collection[Terms]) -> str:
    return " or ".join(sorted(map(_shown, selections))) or "no namespace"


# What the API server has


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace_selector: Any = None


class _Configuration(msgspec.Struct, frozen=True):
    webhooks: tuple[_Entry, ...] = ()


class _MatchResources(msgspec.Struct, frozen=True, rename="camel"):
    namespace_selector: Any = None


class _BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    policy_name: str = ""
    match_resources: _MatchResources = _MatchResources()


class _Binding(msgspec.Struct, frozen=True):
    spec: _BindingSpec = _BindingSpec()


class _BindingList(msgspec.Struct, frozen=True):
    items: tuple[_Binding, ...] = ()


_configuration = msgspec.json.Decoder(_Configuration)
_bindings = msgspec.json.Decoder(_BindingList)


def _configuration_at(client: Client, path: str) -> _Configuration:
    try:
        return decode_response(client.get(path), _configuration)
    except NotFound:
        return _Configuration()
