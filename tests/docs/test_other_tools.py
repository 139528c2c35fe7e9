"""*With Argo Workflows, Kubeflow, Ray, Airflow and Spark*: the examples name the queue as Sluice reads it.

That a pod with this label is in the queue is shown on a cluster by
`tests/e2e/membership/test_belonging_to_a_queue.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from queues.membership import VOLCANO_LABEL, MembershipSettings, PodFacts, submitted_pod_membership
from tests.support import yaml_texts
from tests.support.docs.pages import text_of

PAGE = text_of("tasks/other-tools.md")


def examples() -> list[dict[str, Any]]:
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return [yaml_texts.load(each) for each in text.split("---\n")]


def labels_in(value: object) -> Iterator[dict[str, str]]:
    """Labels at any depth."""
    if isinstance(value, dict):
        if isinstance(labels := value.get("labels"), dict):
            yield labels
        for each in value.values():
            yield from labels_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from labels_in(each)


def test_each_example_names_the_queue_on_all_of_its_pods() -> None:
    templates = {"RayCluster": 2, "SparkApplication": 2}
    for example in examples():
        found = list(labels_in(example))
        assert found == [{VOLCANO_LABEL: "workflows"}] * templates.get(example["kind"], 1), example["kind"]


def test_a_pod_with_that_label_is_in_the_queue() -> None:
    facts = PodFacts(
        namespace="pipelines",
        labels={VOLCANO_LABEL: "workflows"},
        annotations={},
        scheduler="default-scheduler",
    )
    found = submitted_pod_membership(facts, rules=MembershipSettings(), podgroup=lambda *_: None)
    assert found is not None
    assert found.queue == "workflows"


def test_there_is_an_example_for_each_tool() -> None:
    groups = {example["apiVersion"].partition("/")[0] for example in examples()}
    assert groups == {
        "argoproj.io", "trainer.kubeflow.org", "kubeflow.org", "ray.io", "sparkoperator.k8s.io", "v1"
    }  # fmt: skip
