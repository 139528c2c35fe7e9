"""What `why` says of a namespace that is not managed, by the selector of the webhook."""

from __future__ import annotations

from typing import Any

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.types import MUTATING_WEBHOOKS, NAMESPACE, POD, Type
from kubectl_queue.why.managed import CONFIGURATION, ENTRY, unmanaged_reason
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.paths import ROOT

ITEM: Object = {"metadata": {"name": "x", "namespace": "team"}}
WHY = (
    'namespace "team" is not managed by sluice (no sluice.dev/managed=true): nothing that is created in it '
    "is in a queue; to have it managed: kubectl label namespace team --overwrite sluice.dev/managed=true"
)


class Stored(ObjectReader):
    """Has these objects, and no others may be read."""

    def __init__(self, *, labels: dict[str, str] | None, selector: dict[str, Any] | None) -> None:
        webhook = {"name": ENTRY, "namespaceSelector": selector}
        namespace = {"metadata": {"name": "team", "labels": labels}}
        self._objects = {
            (MUTATING_WEBHOOKS, CONFIGURATION): None if selector is None else {"webhooks": [webhook]},
            (NAMESPACE, "team"): None if labels is None else namespace,
        }

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        return self._objects[kind, name]


def shipped() -> dict[str, Any]:
    """The selector of the entry as the manifests have it."""
    [configuration] = yaml_texts.load_all((ROOT / "manifests/webhooks/mutating.yaml").read_text())
    [selector] = [each["namespaceSelector"] for each in configuration["webhooks"] if each["name"] == ENTRY]
    assert isinstance(selector, dict)
    return selector


MANAGED = {**shipped(), "matchLabels": {"sluice.dev/managed": "true"}}


@each_case(
    ("labels", "selector", "expected"),
    [
        ({}, MANAGED, WHY),
        ({"sluice.dev/managed": "true", "sluice.dev/member-namespace": "true"}, MANAGED, ""),
        ({}, shipped(), ""),
        ({"sluice.dev/member-namespace": "true"}, shipped(), ""),
        (None, MANAGED, ""),
        ({}, None, ""),
        ({}, {"matchLabels": {"sluice.dev/queue": "x"}}, ""),
    ],
    ids=[
        "not managed",
        "managed, and names a queue",
        "every namespace is managed",
        "every namespace is managed, and it names a queue",
        "the namespace may not be read",
        "the webhooks may not be read",
        "a selector that nobody can mean",
    ],
)
def test_a_namespace_is_unmanaged_where_the_webhook_leaves_it_out(
    labels: dict[str, str] | None, selector: dict[str, Any] | None, expected: str
) -> None:
    assert unmanaged_reason(POD, ITEM, Stored(labels=labels, selector=selector)) == expected


def test_a_namespace_is_judged_by_its_own_labels() -> None:
    namespace = {"metadata": {"name": "team", "labels": {}}}
    assert unmanaged_reason(NAMESPACE, namespace, Stored(labels=None, selector=MANAGED)) == WHY
