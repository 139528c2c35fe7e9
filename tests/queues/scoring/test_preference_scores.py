"""Scores by labels, taints, images and other pods: values that Kubernetes publishes, small cases by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from queues.policies.scheduler_conf import parse_policy
from queues.scoring.node_matches import KEPT, NodeMatches
from queues.scoring.node_table import NodeTable
from queues.scoring.preference_scores import image_scores, node_affinity_scores, taint_scores
from queues.scoring.preferences import (
    Affinity,
    NodeFacts,
    NodeRequirement,
    NodeTerm,
    PodPlacement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from queues.scoring.requests import ScoringRequest
from queues.scoring.topology_scores import HOSTNAME, ZONE, pod_affinity_scores, spread_scores
from queues.scoring.total import Scorer
from tests.support.cases import each_case

MB = 1024 * 1024
NOTHING = ScoringRequest()


def table_of(**nodes: NodeFacts) -> NodeTable:
    table = NodeTable()
    for name, facts in nodes.items():
        table.set_node(name, {"cpu": 4000, "memory": 2**33}, facts)
    return table


def labelled(**labels: Mapping[str, str]) -> NodeTable:
    return table_of(**{name: NodeFacts(labels=values) for name, values in labels.items()})


def affinity(**fields: Any) -> Affinity:
    return msgspec.convert(fields, Affinity)


def prefers_nodes(*terms: tuple[int, Mapping[str, Any]]) -> PodPlacement:
    preferred = [{"weight": weight, "preference": term} for weight, term in terms]
    return PodPlacement(
        affinity=affinity(nodeAffinity={"preferredDuringSchedulingIgnoredDuringExecution": preferred})
    )


def is_(key: str, *values: str) -> Mapping[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def test_node_affinity_adds_the_weights_of_the_terms_that_match() -> None:
    table = labelled(n1={"disk": "ssd", "gpu": "a"}, n2={"disk": "ssd"}, n3={})
    view = table.view()
    pod = prefers_nodes((5, is_("disk", "ssd")), (40, is_("gpu", "a", "b")), (0, is_("disk", "ssd")), (9, {}))
    rows = view.select(["n1", "n2", "n3"])
    assert node_affinity_scores(view, rows, pod, NodeMatches()).tolist() == [45, 5, 0]


@each_case(
    ("operator", "values", "value", "expected"),
    [
        ("In", ["a", "b"], "b", True),
        ("In", ["a"], None, False),
        ("NotIn", ["a"], "b", True),
        ("NotIn", ["a"], None, True),
        ("NotIn", ["a"], "a", False),
        ("Exists", [], "", True),
        ("Exists", [], None, False),
        ("DoesNotExist", [], None, True),
        ("DoesNotExist", [], "a", False),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Gt", ["-5"], "-4", True),
        ("Gt", ["x"], "6", False),
        ("Gt", ["5", "6"], "7", False),
        ("Lt", ["5"], "+4", True),
        ("Lt", ["5"], None, False),
        ("Lt", ["5"], "9" * 30, False),
        ("Near", ["5"], "5", False),
    ],
)
def test_requirements_on_nodes(operator: str, values: list[str], value: str | None, expected: bool) -> None:
    requirement = NodeRequirement(key="k", operator=operator, values=tuple(values))
    view = labelled(n1={} if value is None else {"k": value}, n2={"k": "other", "l": ""}).view()
    flags = NodeMatches().term(view, NodeTerm(match_expressions=(requirement,)))
    assert flags.tolist()[view.rows["n1"]] is expected


def test_a_term_by_the_name_of_the_node() -> None:
    view = labelled(n1={}, n2={}).view()
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    other = {"matchFields": [{"key": "metadata.uid", "operator": "Exists"}]}
    pod = prefers_nodes((7, by_name), (7, other))
    assert node_affinity_scores(view, view.select(["n1", "n2"]), pod, NodeMatches()).tolist() == [0, 7]


SOFT = Taint(key="old", value="yes", effect="PreferNoSchedule")
OTHER_SOFT = Taint(key="slow", value="", effect="PreferNoSchedule")
HARD = Taint(key="down", value="", effect="NoSchedule")


@each_case(
    ("tolerations", "expected"),
    [
        ([], [100, 100, 50, 0]),
        ([Toleration(key="old", operator="Equal", value="yes")], [100, 100, 100, 0]),
        ([Toleration(key="old", operator="Exists", effect="NoSchedule")], [100, 100, 50, 0]),
        ([Toleration(operator="Exists")], [100, 100, 100, 100]),
        ([Toleration(key="old", value="no"), Toleration(key="slow")], [100, 100, 0, 0]),
    ],
)
def test_taints_that_only_count_against_a_node(tolerations: list[Toleration], expected: list[int]) -> None:
    table = table_of(
        n1=NodeFacts(),
        n2=NodeFacts(taints=(HARD,)),
        n3=NodeFacts(taints=(SOFT,)),
        n4=NodeFacts(taints=(SOFT, OTHER_SOFT)),
    )
    view = table.view()
    pod = PodPlacement(tolerations=tuple(tolerations))
    rows = view.select(["n1", "n2", "n3", "n4"])
    assert taint_scores(view, rows, pod, NodeMatches()).tolist() == expected


def test_a_view_without_nodes_is_scored_while_the_first_one_comes() -> None:
    """How many nodes have an image is always the latest; the view is as old as the call."""
    table = NodeTable()
    view = table.view()
    table.set_node("n1", {"cpu": 1}, NodeFacts(images={"a:latest": 900 * MB}))
    rows = view.rows_of([])
    assert image_scores(view, rows, PodPlacement(images=("a",)), NodeMatches()).tolist() == []


def test_images_as_kubernetes_publishes_it() -> None:
    # imagelocality's own test: 40 MB and 250 MB images, each on one node of two; one container each
    table = table_of(
        n1=NodeFacts(images={"gcr.io/40:latest": 40 * MB, "gcr.io/300:latest": 300 * MB}),
        n2=NodeFacts(images={"gcr.io/250:latest": 250 * MB}),
    )
    view = table.view()
    rows = view.select(["n1", "n2"])
    score = image_scores(view, rows, PodPlacement(images=("gcr.io/40", "gcr.io/250")), NodeMatches())
    assert score.tolist() == [0, 5]
    score = image_scores(view, rows, PodPlacement(images=("gcr.io/40", "gcr.io/300")), NodeMatches())
    assert score.tolist() == [7, 0]


def test_a_tag_is_latest_unless_it_is_written() -> None:
    table = table_of(n1=NodeFacts(images={"reg:5000/a:latest": 900 * MB, "b:v1": 900 * MB}))
    view = table.view()
    rows = view.select(["n1"])
    for image, score in (("reg:5000/a", 89), ("b:v1", 89), ("b", 0)):
        assert image_scores(view, rows, PodPlacement(images=(image,)), NodeMatches()).tolist() == [score]


def prefers_pods(kind: str, weight: int, labels: Mapping[str, str], key: str = ZONE, **more: Any) -> Affinity:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}
    return affinity(
        **{
            kind: {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": weight, "podAffinityTerm": term}
                ]
            }
        }
    )


ZONES = {"n1": {ZONE: "a"}, "n2": {ZONE: "a"}, "n3": {ZONE: "b"}, "n4": {}}
DB = PodPlacement(namespace="team", labels={"app": "db"})
NAMESPACES: Mapping[str, Mapping[str, str]] = {"team": {"kind": "prod"}, "other": {"kind": "test"}}


AVOIDS_DB = PodPlacement(namespace="team", affinity=prefers_pods("podAntiAffinity", 3, {"app": "db"}))


def affinity_of(pod: PodPlacement, *running: tuple[str, PodPlacement]) -> list[float]:
    table = labelled(**ZONES)
    for number, (node, placement) in enumerate(running):
        table.see_pod(f"uid-{number}", node, NOTHING, placement)
    view = table.view()
    rows = view.select(list(ZONES))
    scores = pod_affinity_scores(view, rows, pod, NodeMatches(), table.classes, NAMESPACES.get)
    return [float(score) for score in scores]


@each_case(
    ("pod", "running", "expected"),
    [
        (PodPlacement(namespace="team"), [("n1", DB)], [0, 0, 0, 0]),
        (
            PodPlacement(namespace="team", affinity=prefers_pods("podAffinity", 5, {"app": "db"})),
            [("n1", DB)],
            [100, 100, 0, 0],
        ),
        (
            PodPlacement(namespace="team", affinity=prefers_pods("podAntiAffinity", 5, {"app": "db"})),
            [("n1", DB)],
            [0, 0, 100, 100],
        ),
        (
            PodPlacement(namespace="team", affinity=prefers_pods("podAffinity", 5, {"app": "db"})),
            [("n1", DB), ("n2", DB), ("n3", DB), ("n4", DB)],
            [100, 100, 50, 0],
        ),
        (  # another namespace is not meant
            PodPlacement(namespace="other", affinity=prefers_pods("podAffinity", 5, {"app": "db"})),
            [("n1", DB)],
            [0, 0, 0, 0],
        ),
        (  # unless it is named, or selected
            PodPlacement(
                namespace="other", affinity=prefers_pods("podAffinity", 5, {"app": "db"}, namespaces=["team"])
            ),
            [("n1", DB)],
            [100, 100, 0, 0],
        ),
        (
            PodPlacement(
                namespace="other",
                affinity=prefers_pods(
                    "podAffinity", 5, {"app": "db"}, namespaceSelector={"matchLabels": {"kind": "prod"}}
                ),
            ),
            [("n3", DB)],
            [0, 0, 100, 0],
        ),
        (  # what a running pod prefers counts for the new one
            DB,
            [("n3", PodPlacement(namespace="team", affinity=prefers_pods("podAffinity", 3, {"app": "db"})))],
            [0, 0, 100, 0],
        ),
        (
            DB,
            [
                (
                    "n3",
                    PodPlacement(
                        namespace="team", affinity=prefers_pods("podAntiAffinity", 3, {"app": "db"})
                    ),
                )
            ],
            [100, 100, 0, 100],
        ),
    ],
)
def test_pods_that_are_preferred_or_avoided(
    pod: PodPlacement, running: list[tuple[str, PodPlacement]], expected: list[float]
) -> None:
    assert affinity_of(pod, *running) == expected


HOSTS = {
    "n1": {HOSTNAME: "n1", ZONE: "a"},
    "n2": {HOSTNAME: "n2", ZONE: "a"},
    "n3": {HOSTNAME: "n3", ZONE: "b"},
}


def spread_of(
    pod: PodPlacement, counts: Mapping[str, int], *, nodes: Mapping[str, Mapping[str, str]] = HOSTS
) -> list[float]:
    table = labelled(**nodes)
    for node, number in counts.items():
        for one in range(number):
            table.see_pod(f"{node}-{one}", node, NOTHING, pod)
            table.see_pod(f"{node}-{one}-leaving", node, NOTHING, pod, terminating=True)
    view = table.view()
    rows = view.select(list(nodes))
    return [float(score) for score in spread_scores(view, rows, pod, NodeMatches(), table.classes)]


def by(key: str, **more: Any) -> SpreadConstraint:
    selector = {"matchLabels": {"app": "web"}}
    return SpreadConstraint(
        topology_key=key, when_unsatisfiable="ScheduleAnyway", label_selector=selector, **more
    )


WEB = PodPlacement(namespace="team", labels={"app": "web"})


def with_spread(*constraints: SpreadConstraint) -> PodPlacement:
    return PodPlacement(namespace="team", labels={"app": "web"}, spread=constraints)


@each_case(
    ("pod", "counts", "expected"),
    [
        (WEB, {"n1": 3}, [0, 0, 0]),
        (with_spread(by(HOSTNAME)), {}, [100, 100, 100]),
        # Kubernetes' own case: 2, 1 and 0 pods on three nodes
        (with_spread(by(HOSTNAME)), {"n1": 2, "n2": 1}, [0, 33, 100]),
        (with_spread(by(ZONE)), {"n1": 2, "n3": 1}, [33, 33, 100]),
        (with_spread(by(HOSTNAME, max_skew=2)), {"n1": 2, "n2": 1}, [25, 50, 100]),
    ],
)
def test_pods_of_a_kind_are_spread(pod: PodPlacement, counts: Mapping[str, int], expected: list[int]) -> None:
    assert spread_of(pod, counts) == expected


def test_a_node_without_the_key_is_not_scored() -> None:
    nodes = {**HOSTS, "n4": {HOSTNAME: "n4"}}
    scores = spread_of(with_spread(by(ZONE)), {"n1": 1, "n4": 9}, nodes=nodes)
    assert scores == [0, 0, 100, 0]


def test_pods_without_constraints_are_spread_by_their_owner() -> None:
    pod = PodPlacement(namespace="team", labels={"app": "web"}, spread_by="replicaset-uid")
    scores = spread_of(pod, {"n1": 2, "n2": 1})
    assert scores[0] < scores[1] < scores[2]


def test_the_values_of_match_label_keys_narrow_the_kind() -> None:
    table = labelled(**HOSTS)
    for uid, version, node in (("1", "old", "n1"), ("2", "new", "n2")):
        table.see_pod(uid, node, NOTHING, PodPlacement(namespace="team", labels={"app": "web", "v": version}))
    pod = PodPlacement(
        namespace="team",
        labels={"app": "web", "v": "new"},
        spread=(by(HOSTNAME, match_label_keys=("v", "absent")),),
    )
    view = table.view()
    scores = spread_scores(view, view.select(list(HOSTS)), pod, NodeMatches(), table.classes).tolist()
    assert scores[1] < scores[0] == scores[2]


def test_nodes_that_the_pod_may_not_go_to_do_not_count() -> None:
    nodes = {"n1": {ZONE: "a", "pool": "x"}, "n2": {ZONE: "a", "pool": "y"}, "n3": {ZONE: "b", "pool": "x"}}
    own = with_spread(by(ZONE))
    elsewhere = msgspec.structs.replace(own, node_selector={"pool": "x"})
    assert spread_of(own, {"n2": 5}, nodes=nodes)[0] < spread_of(own, {"n2": 5}, nodes=nodes)[2]
    scores = spread_of(elsewhere, {"n2": 5}, nodes=nodes)
    assert scores[0] == scores[2]


def test_answers_are_kept_until_a_fact_changes() -> None:
    table = labelled(n1={"disk": "ssd"}, n2={})
    matches, pod = NodeMatches(), prefers_nodes((5, is_("disk", "ssd")))

    def scores() -> list[float]:
        view = table.view()
        return [float(score) for score in node_affinity_scores(view, view.select(["n1", "n2"]), pod, matches)]

    assert scores() == [5, 0]
    table.see_pod("uid", "n1", NOTHING)
    assert table.view().labels_generation == 2
    table.set_node("n2", {"cpu": 1}, NodeFacts(labels={"disk": "ssd"}))
    assert scores() == [5, 5]
    table.remove_node("n1")
    assert scores() == [0, 5]
    for number in range(3 * KEPT):
        term = prefers_nodes((1, is_("x", str(number))))
        node_affinity_scores(table.view(), table.view().select(["n2"]), term, matches)


POLICY = parse_policy(
    "actions: allocate\ntiers:\n"
    "- plugins: [{name: binpack, arguments: {binpack.weight: 2}}, {name: nodeorder}]"
)


def test_the_total_is_the_weighted_sum_and_unknown_nodes_score_nothing() -> None:
    table = labelled(n1={"disk": "ssd"}, n2={})
    table.see_pod("uid", "n2", ScoringRequest(2000, 2**32, 2000, 2**32))
    scorer = Scorer(table, namespace_labels=NAMESPACES.get)
    pod, request = prefers_nodes((5, is_("disk", "ssd"))), ScoringRequest(1000, 2**31, 1000, 2**31)
    view = table.view()
    parts = scorer.parts(POLICY, view, view.select(["n1", "n2"]), request, pod)
    assert {name: score.tolist() for name, score in parts.items()} == {
        "binpack": [50, 150],
        "imagelocality": [0, 0],
        "leastrequested": [75, 25],
        "balancedresource": [100, 100],
        "nodeaffinity": [10, 0],
        "podaffinity": [0, 0],
        "tainttoleration": [300, 300],
        "podtopologyspread": [0, 0],
    }
    assert scorer.scores(POLICY, ["n2", "none", "n1"], request, pod).tolist() == [575, 0, 535]
    assert scorer.scores(POLICY, [], request, pod).tolist() == []
