"""What our registrations with the API server lack: a function of values, no clock, no I/O.

The promise of a stop, and that of a quota, are for pods that the API server asks us about. This says whether
it asks about all that it has to. What an admin may add leaves nothing out; anything else that is there counts
as leaving out what we need, since conditions are not evaluated (`expressions`).

The entry of the bind guard is judged here for people alone. Whether binds meet it is found out by probes, in
each namespace where that matters (`controller.stops.bind_guard`): anew after each change of it.

Invariants
- What asks more than is needed lacks nothing: another rule, a condition less, a selector less.
- An object lacks nothing with each of the texts that a version of ours has shipped, so an upgrade and the way
  back lack nothing between their steps.
- What an earlier version did not have (`Need.is_new`) is lacking only once it was there.

| found                                                       | lacks                                       |
|-------------------------------------------------------------|---------------------------------------------|
| a configuration, an entry, a policy is not there            | it                                          |
| `webhooks: []`                                              | each entry                                  |
| a rule without a resource or an operation that is needed    | that                                        |
| a `namespaceSelector` with a requirement of its own         | what that leaves out                        |
| the same with setting `managed_namespaces`                  | nothing, in the entries that have it        |
| `kube-system` or our own namespace exempt                   | nothing: they never have members            |
| any other namespace exempt by name                          | it; setting `managed_namespaces` is the way |
| an `objectSelector` that is not ours                        | what that leaves out                        |
| a condition that is not ours, or edited                     | what that leaves out                        |
| Kueue's label, more schedulers in a condition of ours       | nothing                                     |
| a condition without a scheduler of `owned_schedulers`,      | its pods                                    |
| or, with setting `kueue_label`, without Kueue's label       |                                             |
| `failurePolicy: Ignore`                                     | all, while a call fails; but for `binds`,   |
|                                                             | where mode `gate` alone needs Fail          |
| `timeoutSeconds` below `GUARD_SECONDS` of `binds` that lets | binds that we would answer in time          |
| pass what is not answered                                   |                                             |
| another Service, path, or host than ours is called          | all                                         |
| `caBundle` that is empty, or of others                      | nothing: each call fails, so nothing is     |
|                                                             | created. `binds` lets pass what then comes  |
|                                                             | (alert SluiceGuardFailedOpen)               |
| a policy without one of its validations, or with another    | that                                        |
| variable, parameters, an excluded resource                  |                                             |
| no binding of it denies everywhere (`Audit` and `Warn` deny | it                                          |
| nothing)                                                    |                                             |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from queues.apimachinery.label_selectors import BadSelector, Operator
from queues.namespace_selectors import NAME_LABEL
from queues.registration.expressions import CONDITIONS, EDITIONS, Edition, normal_form
from queues.registration.needs import (
    ENTRIES,
    GUARD_SECONDS,
    NAME,
    POLICIES,
    UNMANAGED_POLICY,
    EntryNeed,
    Need,
    ReviewedResource,
)
from queues.registration.objects import (
    AdmissionPolicySpec,
    CelExpression,
    ClientConfig,
    MatchResources,
    PolicyBindingSpec,
    Rule,
    Webhook,
)
from queues.registration.selectors import Term, Terms, terms_of
from queues.text import join_limited, printable, quoted

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
DENY, FAIL = "Deny", "Fail"
#: How many of a kind a text names, and the characters of each.
SHOWN, TEXT_LIMIT = 3, 120


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say. `hosts`: those of URLs that are ours; `exempt`: namespaces without members.

    `managed`: the requirements of setting `managed_namespaces`. `schedulers`: those that we own.
    `guard_fails_closed`: nothing but the guard holds binds, as in mode `gate`.
    """

    service: str
    namespace: str
    hosts: frozenset[str] = frozenset()
    own_user: str = ""
    exempt: frozenset[str] = frozenset()
    managed: Terms = frozenset()
    schedulers: frozenset[str] = frozenset()
    kueue: bool = False
    guard_fails_closed: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has: entries by kind (None: the configuration is not there), policies by name.

    `policies`, `bindings`: None where they cannot be read. `seen`: the names of what was there before.
    """

    entries: Mapping[str, tuple[Webhook, ...] | None]
    policies: Mapping[str, AdmissionPolicySpec] | None = None
    bindings: Collection[PolicyBindingSpec] | None = None
    seen: Collection[str] = frozenset()


class RegistrationFault(msgspec.Struct, frozen=True):
    """What is lacking. `of_pods`: no stop and no quota holds meanwhile."""

    text: str
    of_pods: bool = True


def needed_policies(expected: Expected) -> tuple[Need, ...]:
    return (*POLICIES, UNMANAGED_POLICY) if expected.managed else POLICIES


def registration_faults(found: Found, expected: Expected) -> Iterator[RegistrationFault]:
    """What is lacking, in the order of `needs`."""
    yield from _of_entries(found, expected)
    for need in needed_policies(expected):
        yield from map(RegistrationFault, _of_policies(found, need, expected))


# Webhooks


def _of_entries(found: Found, expected: Expected) -> Iterator[RegistrationFault]:
    for kind, webhooks in found.entries.items():
        if webhooks is None:
            yield RegistrationFault(f"{kind} {NAME} is not there")
            continue
        by_name = {webhook.name: webhook for webhook in webhooks}
        for need in ENTRIES:
            if need.kind != kind:
                continue
            webhook = by_name.get(need.name)
            if webhook is not None:
                for text in _of_entry(webhook, need, expected):
                    yield RegistrationFault(f"{kind} {NAME}: {need.name} {text}", need.of_pods)
            elif not need.is_new or need.name in found.seen:
                yield RegistrationFault(f"{kind} {NAME}: {need.name} is not there", need.of_pods)


def _of_entry(webhook: Webhook, need: EntryNeed, expected: Expected) -> Iterator[str]:
    yield from _of_rules(webhook.rules or (), need.asked)
    yield from _of_conditions(webhook.match_conditions or (), need.name, expected)
    if not need.any_namespace:
        allowed = need.namespaces | (expected.managed if need.managed else frozenset())
        yield from _of_selector("namespaces", webhook.namespace_selector, allowed, expected)
    yield from _of_selector("objects", webhook.object_selector, need.objects, expected)
    yield from _of_failures(webhook, need, expected)
    if not _is_ours(webhook.client_config, need.path, expected):
        yield "calls another server"


def _of_failures(webhook: Webhook, need: EntryNeed, expected: Expected) -> Iterator[str]:
    if webhook.failure_policy == FAIL:
        return
    if need.fails_closed or expected.guard_fails_closed:
        yield "lets pass what we do not answer: its failurePolicy is not Fail"
    elif (webhook.timeout_seconds or 0) < GUARD_SECONDS:
        yield f"lets pass what we do not answer within {webhook.timeout_seconds} s"


def _is_ours(config: ClientConfig, path: str, expected: Expected) -> bool:
    if config.service is not None:
        service = config.service
        called = (service.namespace, service.name, service.path or "/")
        return called == (expected.namespace, expected.service, path)
    url = urlsplit(config.url or "")
    return url.scheme == "https" and url.hostname in expected.hosts and (url.path or "/") == path


# Policies


def _of_policies(found: Found, need: Need, expected: Expected) -> Iterator[str]:
    policy = (found.policies or {}).get(need.name)
    if policy is not None:
        for text in _of_policy(policy, need, expected):
            yield f"{POLICY} {need.name} {text}"
    elif need.is_new and need.name not in found.seen:
        return
    elif found.policies is not None:
        yield f"{POLICY} {need.name} is not there"
        return
    if found.bindings is not None and not _is_bound(need, found.bindings, expected):
        yield f"no {BINDING} has {POLICY} {need.name} deny everywhere"


def _of_policy(policy: AdmissionPolicySpec, need: Need, expected: Expected) -> Iterator[str]:
    constraints = policy.match_constraints or MatchResources()
    if policy.failure_policy != FAIL:
        yield "lets pass what it cannot judge: its failurePolicy is not Fail"
    if policy.param_kind is not None:
        yield "takes parameters"
    yield from _of_matched(constraints, need, expected)
    yield from _of_conditions(policy.match_conditions or (), need.name, expected)
    if not any(_validates(policy, edition, expected) for edition in EDITIONS[need.name]):
        yield "does not validate what it has to"


def _of_matched(matched: MatchResources, need: Need, expected: Expected) -> Iterator[str]:
    yield from _of_rules(matched.resource_rules or (), need.asked)
    if matched.exclude_resource_rules:
        yield "excludes resources"
    yield from _of_selector("namespaces", matched.namespace_selector, frozenset(), expected)
    yield from _of_selector("objects", matched.object_selector, need.objects, expected)


def _validates(policy: AdmissionPolicySpec, edition: Edition, expected: Expected) -> bool:
    own = expected.own_user
    found = {normal_form(each.expression, own_user=own).digest for each in policy.validations or ()}
    variables = {
        normal_form(f"{each.name} = {each.expression}", own_user=own).digest
        for each in policy.variables or ()
    }
    return found >= edition.validations and variables == edition.variables


def _is_bound(need: Need, bindings: Collection[PolicyBindingSpec], expected: Expected) -> bool:
    ours = [
        binding
        for binding in bindings
        if binding.policy_name == need.name
        and DENY in (binding.validation_actions or ())
        and binding.param_ref is None
    ]
    if need is not UNMANAGED_POLICY:
        return any(not _narrows(binding, frozenset(), expected) for binding in ours)
    # Selects the opposite of what is managed: where a namespace misses one requirement.
    return all(
        any(not _narrows(binding, frozenset({term.opposite}), expected) for binding in ours)
        for term in expected.managed
    )


def _narrows(binding: PolicyBindingSpec, allowed: Terms, expected: Expected) -> bool:
    matched = binding.match_resources or MatchResources()
    if matched.resource_rules or matched.exclude_resource_rules:
        return True
    faults = (
        *_of_selector("namespaces", matched.namespace_selector, allowed, expected),
        *_of_selector("objects", matched.object_selector, frozenset(), expected),
    )
    return bool(faults)


# Parts of both


def _of_rules(rules: Iterable[Rule], asked: Iterable[ReviewedResource]) -> Iterator[str]:
    rules = tuple(rules)
    missing = [str(each) for each in asked if not any(_covers(rule, each) for rule in rules)]
    if missing:
        yield f"is not asked about {join_limited(missing, limit=SHOWN)}"


def _covers(rule: Rule, asked: ReviewedResource) -> bool:
    in_namespaces = asked.resource not in _CLUSTER_SCOPED
    scope = "Namespaced" if in_namespaces else "Cluster"
    return (
        _has(rule.api_groups, asked.group)
        and _has(rule.api_versions, asked.version)
        and _has_resource(rule.resources, asked.resource)
        and _has(rule.operations, asked.operation)
        and rule.scope in (None, "*", scope)
        and not rule.resource_names
    )


_CLUSTER_SCOPED = frozenset({"queues", "namespaces", "namespaces/status"})


def _has(words: Collection[str], word: str) -> bool:
    return word in words or "*" in words


def _has_resource(resources: Collection[str], resource: str) -> bool:
    kind, _, sub = resource.partition("/")
    return any(
        each in resources
        for each in ((resource, f"{kind}/*", f"*/{sub}", "*/*") if sub else (kind, f"{kind}/*", "*", "*/*"))
    )


def _of_conditions(conditions: Iterable[CelExpression], name: str, expected: Expected) -> Iterator[str]:
    known = CONDITIONS.get(name, frozenset())
    for condition in conditions:
        form = normal_form(condition.expression, own_user=expected.own_user)
        shown = quoted(printable(condition.name, limit=TEXT_LIMIT))
        if form.digest not in known:
            yield f"has condition {shown}, which is not ours and may leave out anything"
            continue
        if form.schedulers is not None and (lacking := expected.schedulers - form.schedulers):
            names = join_limited(sorted(lacking), limit=SHOWN)
            yield f"leaves out by condition {shown} what names scheduler {names}"
        if expected.kueue and form.kueue is False:
            yield f"leaves out by condition {shown} what has Kueue's label alone"


def _of_selector(what: str, selector: object, allowed: Terms, expected: Expected) -> Iterator[str]:
    try:
        terms = terms_of(selector)
    except BadSelector:
        yield f"selects {what} by what cannot be read"
        return
    others = sorted(
        str(term) for term in terms - allowed if not (what == "namespaces" and _exempts(term, expected))
    )
    if others:
        shown = printable(join_limited(others, limit=SHOWN), limit=TEXT_LIMIT)
        yield f"is only about {what} with {shown}"


def _exempts(term: Term, expected: Expected) -> bool:
    """Whether it leaves out only namespaces that never have members."""
    return term.key == NAME_LABEL and term.operator is Operator.NOT_IN and term.values <= expected.exempt
