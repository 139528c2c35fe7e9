"""`why` says of what is stored which labels and annotations of Volcano or Kueue do nothing there."""

from __future__ import annotations

from typing import Any

from kubectl_queue.objects.keys import key_lines
from kubectl_queue.objects.types import type_of
from queues import well_known
from queues.membership import KUEUE_LABEL, VOLCANO_ANNOTATION, VOLCANO_LABEL
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, run_command

WRITE = f"write annotation {VOLCANO_ANNOTATION}"
SLA = "volcano.sh/sla-waiting-time"


def meta(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "team", **more}}


@each_case(
    ("kind", "item", "told"),
    [
        ("ns", meta(annotations={VOLCANO_ANNOTATION: "a"}), []),
        (
            "ns",
            meta(labels={VOLCANO_ANNOTATION: "a"}),
            [f"label {VOLCANO_ANNOTATION} names no queue: {WRITE}"],
        ),
        (
            "ns",
            meta(annotations={VOLCANO_LABEL: "a"}),
            [f"annotation {VOLCANO_LABEL} names no queue: {WRITE}"],
        ),
        ("pod", meta(annotations={SLA: "1h"}), [f"annotation {SLA} has no effect here: use a PriorityClass"]),
        (
            "pod",
            meta(labels={KUEUE_LABEL: "a"}),
            [f"label {KUEUE_LABEL} names no queue: setting kueue_label is off"],
        ),
        ("pod", meta(labels={KUEUE_LABEL: "a", well_known.QUEUE: "a"}), []),
        (
            "deploy",
            {**meta(), "spec": {"template": meta(annotations={SLA: "1h"})}},
            [f"annotation {SLA} has no effect here: use a PriorityClass"],
        ),
        (
            "cj",
            {
                **meta(),
                "spec": {"jobTemplate": {"spec": {"template": meta(labels={VOLCANO_ANNOTATION: "a"})}}},
            },
            [f"label {VOLCANO_ANNOTATION} names no queue: {WRITE}"],
        ),
        (
            "pg",
            meta(annotations={VOLCANO_ANNOTATION: "a"}),
            [f"annotation {VOLCANO_ANNOTATION} names no queue: name the queue in spec.queue"],
        ),
    ],
    ids=str,
)
def test_what_is_told_of_a_stored_object(kind: str, item: dict[str, Any], told: list[str]) -> None:
    found = type_of(kind)
    assert found is not None
    assert list(key_lines(found, item)) == told


def test_why_of_a_namespace_says_that_its_label_names_no_queue() -> None:
    """Every stop misses its pods, and nothing else says why."""
    stored = {"metadata": {"name": "team", "uid": "n", "labels": {VOLCANO_ANNOTATION: "a"}}}
    client = StoredObjects({"/api/v1/namespaces/team": stored})
    done = run_command(StoredQueues(), "why", "ns/team", client=client)
    assert f"label {VOLCANO_ANNOTATION} names no queue: {WRITE}" in done.out
