"""Lapses are counted as the watch shows them, and where it may have missed one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cluster.cache.registrations import (
    AdmissionPolicy,
    AdmissionPolicyBinding,
    Registration,
    RegistrationKind,
    Registrations,
    WebhookConfiguration,
)
from cluster.objects import Metadata
from queues.registration.coverage import Expected
from queues.registration.needs import POLICIES
from tests.support import yaml_texts
from tests.support.paths import ROOT

KINDS = {
    RegistrationKind.MUTATING: WebhookConfiguration,
    RegistrationKind.VALIDATING: WebhookConfiguration,
    RegistrationKind.POLICIES: AdmissionPolicy,
    RegistrationKind.BINDINGS: AdmissionPolicyBinding,
}
BY_KIND = {
    "MutatingWebhookConfiguration": RegistrationKind.MUTATING,
    "ValidatingWebhookConfiguration": RegistrationKind.VALIDATING,
    "ValidatingAdmissionPolicy": RegistrationKind.POLICIES,
    "ValidatingAdmissionPolicyBinding": RegistrationKind.BINDINGS,
}


class Watched:
    """Registrations whose kinds have been listed, as the manifests are."""

    def __init__(self, registrations: Registrations | None = None, *, listed: bool = True) -> None:
        self.now = 100.0
        self.told = 0
        self.registrations = registrations or Registrations(clock=lambda: self.now)
        self.registrations.expect(
            Expected(
                service="sluice",
                namespace="sluice-system",
                own_user="system:serviceaccount:sluice-system:sluice",
                exempt=frozenset({"kube-system", "sluice-system"}),
            )
        )
        self.registrations.listen(self._tell)
        self.handlers = {kind: self.registrations.handler(kind) for kind in RegistrationKind}
        self.objects: dict[RegistrationKind, list[Registration]] = {kind: [] for kind in RegistrationKind}
        for folder in ("webhooks", "policies"):
            for path in sorted((ROOT / "manifests" / folder).glob("*.yaml")):
                for each in yaml_texts.load_all(path.read_text()):
                    if each["kind"] in BY_KIND:
                        self._add(each)
        if listed:
            for kind in RegistrationKind:
                self.list(kind)

    def _tell(self) -> None:
        self.told += 1

    def _add(self, body: dict[str, Any]) -> None:
        kind = BY_KIND[body["kind"]]
        metadata = {"name": body["metadata"]["name"], "uid": "a", "resourceVersion": "1", "generation": 1}
        self.objects[kind].append(msgspec.convert({**body, "metadata": metadata}, KINDS[kind]))

    def list(self, kind: RegistrationKind, *objects: Registration) -> None:
        self.handlers[kind].replace(objects or tuple(self.objects[kind]))
        self.registrations.synced[kind].set()

    def mutating(self, **metadata: Any) -> Registration:
        [stored] = self.objects[RegistrationKind.MUTATING]
        return msgspec.structs.replace(stored, metadata=msgspec.structs.replace(stored.metadata, **metadata))

    @property
    def lapses(self) -> int:
        return self.registrations.state.lapses


def narrowed(configuration: Registration) -> Registration:
    assert isinstance(configuration, WebhookConfiguration)
    return msgspec.structs.replace(configuration, webhooks=())


def test_what_the_manifests_have_is_whole() -> None:
    state = Watched().registrations.state
    assert (state.lines, state.lapses) == ([], 0)


def test_without_settings_nothing_is_checked() -> None:
    registrations = Registrations(clock=lambda: 0.0)
    registrations.handler(RegistrationKind.MUTATING).replace([])
    assert registrations.state.lines == []


def test_a_lapse_begins_and_ends_with_the_events_that_show_it() -> None:
    watched = Watched()
    handler = watched.handlers[RegistrationKind.MUTATING]
    told = watched.told
    handler.remove(watched.mutating())
    assert watched.registrations.state.gaps == ("MutatingWebhookConfiguration sluice is not there",)
    watched.now = 110.0
    handler.upsert(watched.mutating(uid="b"))
    state = watched.registrations.state
    assert (state.gaps, state.lapses, state.whole_since) == ((), 1, 110.0)
    assert watched.told == told + 2


def test_an_edit_that_lacks_nothing_is_no_lapse() -> None:
    """As the server's own of `caBundle`."""
    watched = Watched()
    watched.handlers[RegistrationKind.MUTATING].upsert(watched.mutating(generation=2, resource_version="2"))
    assert watched.lapses == 0


@pytest.mark.parametrize("metadata", [{"uid": "b"}, {"generation": 3}], ids=["made anew", "edited twice"])
def test_what_a_list_may_have_missed_is_a_lapse(metadata: dict[str, Any]) -> None:
    watched = Watched()
    watched.now = 120.0
    watched.list(RegistrationKind.MUTATING, watched.mutating(resource_version="5", **metadata))
    state = watched.registrations.state
    assert (state.gaps, state.lapses, state.whole_since) == ((), 1, 120.0)


def test_a_policy_of_somebody_else_counts_nothing() -> None:
    watched = Watched()
    others = [
        AdmissionPolicy(Metadata(name="other", uid=uid, resource_version=uid, generation=int(uid)))
        for uid in ("1", "9")
    ]
    for other in others:
        watched.list(RegistrationKind.POLICIES, *watched.objects[RegistrationKind.POLICIES], other)
    assert watched.lapses == 0


def test_a_binding_that_is_gone_is_a_lapse() -> None:
    watched = Watched()
    watched.list(RegistrationKind.BINDINGS, *watched.objects[RegistrationKind.BINDINGS][1:])
    assert (watched.lapses, len(watched.registrations.state.gaps)) == (1, 1)


def test_what_is_lacking_at_the_first_list_is_a_lapse() -> None:
    watched = Watched(listed=False)
    watched.list(RegistrationKind.MUTATING, narrowed(watched.mutating()))
    assert watched.lapses == 1


def test_an_older_state_is_dropped() -> None:
    watched = Watched()
    handler = watched.handlers[RegistrationKind.MUTATING]
    handler.upsert(watched.mutating(resource_version="7", generation=2))
    handler.upsert(narrowed(watched.mutating(resource_version="6", generation=2)))
    handler.remove(watched.mutating(resource_version="6"))
    assert watched.registrations.state.gaps == ()


def test_what_was_not_read_yet_is_not_known() -> None:
    watched = Watched(listed=False)
    assert len(watched.registrations.state.unread) == len(RegistrationKind)
    for kind in RegistrationKind:
        watched.list(kind)
    assert watched.registrations.state.unread == ()


def test_what_may_not_be_read_is_not_checked_and_said() -> None:
    """Roles may be upgraded after the image. From the first list on it is checked."""
    watched = Watched(listed=False)
    for kind in RegistrationKind:
        watched.registrations.note_refused(kind)
    state = watched.registrations.state
    assert (state.unread, state.gaps, len(state.lines)) == ((), (), len(RegistrationKind))
    watched.list(RegistrationKind.POLICIES)
    assert RegistrationKind.POLICIES.value not in watched.registrations.state.unchecked


def test_what_was_read_and_may_not_be_read_any_more_is_not_known() -> None:
    watched = Watched()
    watched.registrations.note_refused(RegistrationKind.POLICIES)
    watched.registrations.synced[RegistrationKind.POLICIES].clear()  # as its reflector does after a while
    state = watched.registrations.state
    assert (state.unread, state.unchecked) == ((RegistrationKind.POLICIES.value,), ())


def test_any_change_of_the_guards_entry_counts() -> None:
    """Its `caBundle` too: what probes had shown before is not known any more."""
    watched = Watched()
    before = watched.registrations.state.guard_changes
    [stored] = watched.objects[RegistrationKind.VALIDATING]
    assert isinstance(stored, WebhookConfiguration)
    assert stored.webhooks is not None
    webhooks = tuple(
        msgspec.structs.replace(each, timeout_seconds=3) if each.name == "binds.sluice.dev" else each
        for each in stored.webhooks
    )
    metadata = msgspec.structs.replace(stored.metadata, generation=2, resource_version="2")
    watched.handlers[RegistrationKind.VALIDATING].upsert(WebhookConfiguration(metadata, webhooks))
    state = watched.registrations.state
    assert (state.guard_changes, state.lapses) == (before + 1, 0)


def test_each_policy_has_its_objects() -> None:
    names = {each.metadata.name for each in Watched().objects[RegistrationKind.POLICIES]}
    assert names == {need.name for need in POLICIES}
