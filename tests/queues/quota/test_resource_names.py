"""Which names of resources count in a quota, and what is said of the others."""

from __future__ import annotations

from typing import Any

from queues.quota.resource_names import (
    LENGTH,
    KnownResources,
    NameFault,
    is_counted,
    mistake_text,
    name_fault,
    name_warnings,
    uncounted,
)
from tests.support.cases import each_case

KNOWN = KnownResources(
    nodes={"cpu", "memory", "pods", "nvidia.com/gpu", "attachable-volumes-csi-x"},
    classes={"gpu.example.com"},
    others=lambda: {"example.com/asked-for"},
)


@each_case(
    ("name", "fault"),
    [
        ("cpu", None),
        ("pods", None),
        ("ephemeral-storage", None),
        ("hugepages-2Mi", None),
        ("nvidia.com/gpu", None),
        ("example.com/asked-for", None),
        ("deviceclass/gpu.example.com", None),
        ("deviceclass.resource.kubernetes.io/any", None),
        ("CPU", NameFault.MISTAKE),
        ("Memory", NameFault.MISTAKE),
        ("HugePages-2Mi", NameFault.MISTAKE),
        ("requests.cpu", NameFault.MISTAKE),
        ("limits.memory", NameFault.MISTAKE),
        ("requests.storage", NameFault.MISTAKE),
        ("requests.nvidia.com/gpu", NameFault.MISTAKE),
        ("memeory", NameFault.NEVER),
        ("gpu", NameFault.NEVER),
        ("attachable-volumes-csi-x", NameFault.NEVER),
        ("cores.deviceclass/x", NameFault.NEVER),
        ("x.deviceclass.resource.k8s.io/devices", NameFault.NEVER),
        ("nvidia.com/gpus", NameFault.UNSEEN),
        ("limits.nvidia.com/gpu", NameFault.UNSEEN),
        ("deviceclass/other", NameFault.UNSEEN),
    ],
)
def test_each_name_of_the_table(name: str, fault: NameFault | None) -> None:
    assert name_fault(name, KNOWN) is fault


@each_case("name", ["example.com/x", "nvidia.com/gpus", "deviceclass/x", "count/pods"])
def test_what_was_not_read_is_held_against_no_name(name: str) -> None:
    assert name_fault(name) is None
    assert is_counted(name)


def test_what_no_pod_can_request_is_counted_nowhere_whatever_comes() -> None:
    assert uncounted(["cpu", "CPU", "gpu", "nvidia.com/gpus", "requests.cpu"]) == [
        "CPU",
        "gpu",
        "requests.cpu",
    ]


@each_case(
    ("name", "meant"),
    [
        ("CPU", "cpu"),
        ("Memory", "memory"),
        ("requests.cpu", "cpu"),
        ("limits.memory", "memory"),
        ("requests.nvidia.com/gpu", "nvidia.com/gpu"),
    ],
)
def test_a_mistake_says_what_was_meant(name: str, meant: str) -> None:
    assert mistake_text(name) == (
        f'nothing counts that, since no pod can request it; did you mean "{meant}"?'
    )


def test_a_mistake_that_is_near_nothing_says_what_can_be_named() -> None:
    assert mistake_text("requests.storage").endswith("such as cpu, memory or nvidia.com/gpu")


@each_case("name", ["memeory", "gpu", "example.com/x", "cpu"])
def test_only_a_mistake_is_refused(name: str) -> None:
    assert mistake_text(name) == ""


NEVER = "names what nothing counts, since no pod can request it: "
UNSEEN = "names what no node has and no pod of a queue uses yet: "


@each_case(
    ("name", "said"),
    [
        ("memeory", f"{NEVER}memeory (did you mean memory?)"),
        ("gpu", f"{NEVER}gpu (did you mean nvidia.com/gpu?)"),
        ("GPUs", f"{NEVER}GPUs (did you mean nvidia.com/gpu?)"),
        ("cores.deviceclass/x", f"{NEVER}cores.deviceclass/x (did you mean deviceclass/x?)"),
        ("weird", f"{NEVER}weird"),
        ("nvidia.com/gpus", f"{UNSEEN}nvidia.com/gpus (did you mean nvidia.com/gpu?)"),
        ("example.com/x", f"{UNSEEN}example.com/x"),
        (
            "deviceclass/gpu.example.con",
            f"{UNSEEN}deviceclass/gpu.example.con (did you mean deviceclass/gpu.example.com?)",
        ),
    ],
)
def test_a_warning_says_what_is_wrong_and_what_was_meant(name: str, said: str) -> None:
    assert name_warnings({}, {"deserved": {name: "1"}}, KNOWN) == (f"spec.deserved {said}",)


def test_gpu_is_understood_where_no_node_is_known() -> None:
    [text] = name_warnings({}, {"capability": {"gpu": 4}}, KnownResources())
    assert text.endswith("gpu (did you mean nvidia.com/gpu?)")


def test_one_name_in_all_fields_is_said_once() -> None:
    amounts = {"memeory": "1"}
    spec = {"capability": amounts, "deserved": amounts, "guarantee": {"resource": amounts}}
    [text] = name_warnings({}, spec, KNOWN)
    assert text.startswith("spec.capability and spec.deserved and spec.guarantee name what nothing counts")
    assert text.count("memeory") == 1


def test_of_255_mistyped_names_three_are_shown_in_one_warning() -> None:
    amounts = {"cpu": "1", **{f"memeory{number:03}": "1" for number in range(255)}}
    [text] = name_warnings({}, {"capability": amounts}, KNOWN)
    assert text.endswith(" and 252 more")
    assert len(text) <= LENGTH


@each_case("name", ["é" * 300, "x" * 5000, "a\nb", "../..", "😀/😀"])
def test_a_name_of_any_kind_makes_a_line_of_bounded_length(name: str) -> None:
    texts = name_warnings({}, {"capability": {name: "1"}}, KNOWN)
    assert all(len(text) <= LENGTH and text.isprintable() for text in texts)


def test_only_what_an_edit_brings_is_said() -> None:
    before = {"capability": {"memeory": "1"}}
    assert name_warnings(before, {"capability": {"memeory": "2"}}, KNOWN) == ()
    assert name_warnings(before, {"capability": {"memeory": "1", "gpu": "1"}}, KNOWN)[0].endswith(
        "gpu (did you mean nvidia.com/gpu?)"
    )
    [text] = name_warnings(before, {**before, "deserved": {"memeory": "1"}}, KNOWN)
    assert text.startswith("spec.deserved names")


@each_case("spec", [{"capability": 5}, {"guarantee": []}, {"guarantee": {"resource": 1}}, {"deserved": None}])
def test_what_is_no_object_names_nothing(spec: dict[str, Any]) -> None:
    assert name_warnings(spec, spec, KNOWN) == ()
