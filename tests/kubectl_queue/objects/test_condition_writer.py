"""Who wrote a condition, by the managed fields of its object."""

from __future__ import annotations

from typing import Any

from kubectl_queue.objects.condition_writer import condition_writer
from tests.support.cases import each_case


def entry(manager: str, *fields: str, kind: str = "PodScheduled") -> dict[str, Any]:
    owned: dict[str, Any] = {f"f:{field}": {} for field in fields}
    key = f'k:{{"type":"{kind}"}}'
    return {"manager": manager, "fieldsV1": {"f:status": {"f:conditions": {key: owned}}}}


@each_case(
    ("entries", "writer"),
    [
        (None, ""),
        ([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}, {"manager": "old"}], ""),
        ([entry("kubelet", "message", kind="Ready")], ""),
        ([entry("vc-scheduler", "reason", "status")], "vc-scheduler"),
        ([entry("kube-scheduler", "reason"), entry("sluice", "message")], "sluice"),
    ],
    ids=["none", "others", "another condition", "a reason alone", "the message counts"],
)
def test_the_manager_of_the_message_is_the_writer(entries: Any, writer: str) -> None:
    assert condition_writer({"metadata": {"managedFields": entries}}, "PodScheduled") == writer
