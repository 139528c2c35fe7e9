"""The reference says what the code does, line by line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import yaml

from certs.rotation import REQUEST_ANNOTATION
from certs.secret_store import PUBLISHED_ANNOTATION, SWITCHED_ANNOTATION
from cluster.coordination import replica_lease as presence
from cluster.metrics import WORKLOAD_STOPS, Metrics
from cluster.objects import QueueObject
from controller.drain.eviction import REASON, action_label
from controller.events import DRAIN_EVENTS
from controller.pods.pod_conditions import EVENT_REASONS
from controller.quota.give_backs import PREEMPTED, RECLAIMED
from queues import well_known
from queues.causes import CauseKind
from queues.drain.model import DrainAction
from queues.drain.progress import DRAINED, DrainedReason
from queues.fields.table import BY_NAME
from queues.namespace_selectors import (
    EXPRESSIONS_LIMIT,
    LABELS_LIMIT,
    NAME_LABEL,
    RESERVED_PREFIX,
    VALUES_LIMIT,
    compile_selector,
)
from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.policy_texts import read_policies
from queues.policies.resolution import resolve_policy
from queues.quota.enforcement import QUOTA_ENFORCED, EnforcementReason
from queues.quota.exceeded_guarantees import CAPABILITY_EXCEEDED, GUARANTEES_MET
from queues.states import Action, State
from queues.status.acknowledgement import ObstacleReason
from queues.status.conditions import not_acknowledged_condition, not_asked_condition
from queues.status.policy_condition import POLICY_RESOLVED, policy_condition
from queues.tree import Tree
from queues.verdict import verdict
from server.app import create_app
from server.settings import RANGES, Settings
from tests.support import yaml_texts
from tests.support.cases import each_case
from tests.support.docs.pages import DOCS, section_of, text_of
from tests.support.paths import ROOT

PAGE = text_of(*(f"reference/{page.name}" for page in sorted((DOCS / "reference").glob("*.md"))))


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section_of(PAGE, section).splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(section: str) -> set[str]:
    return {row[0] for row in rows(section)}


def test_each_field_of_a_queue_has_its_row() -> None:
    """What `kubectl explain` says, with the default of the definition."""
    definition = yaml.load((ROOT / "manifests" / "crds" / "queues.yaml").read_text(), Loader=yaml.CSafeLoader)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def default(name: str) -> str:
        part = schema
        for key in name.split("."):
            part = part["properties"][key]
        return str(part.get("default", "")).replace("True", "true")

    wanted = {name: [row.origin, default(name), row.effect, row.description] for name, row in BY_NAME.items()}
    shown = {row[0]: row[1:] for row in rows("Fields of a Queue")}
    assert shown.keys() == wanted.keys()
    for name, row in wanted.items():
        assert shown[name] == [cell.strip("`") for cell in row], name


def test_each_setting_has_its_row_with_its_default() -> None:
    """Every setting is listed, with the default it has."""
    defaults = {name: getattr(Settings(), name) for name in Settings.__struct_fields__}
    shown = {
        name: ",".join(value) if isinstance(value, tuple) else str(value).replace("False", "false")
        for name, value in defaults.items()
    }
    assert {row[0]: row[1] for row in rows("Settings")} == shown


def test_each_number_has_its_range() -> None:
    described = {row[0]: row[2] for row in rows("Settings")}
    for name, valid in RANGES.items():
        assert f"from {valid.first} to {valid.last}" in described[name], name


def test_each_endpoint_has_its_row() -> None:
    """Every route of the app is listed with its method, and no other."""
    served = {
        (rule.rule, method)
        for rule in create_app().url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert {(row[0], row[1]) for row in rows("Endpoints")} == served


def test_each_metric_has_its_row() -> None:
    """Every metric is listed, and no other."""
    assert words("Metrics") == {metric.name for metric in Metrics().registry.collect()}


def test_each_name_on_objects_has_its_row() -> None:
    """Every `sluice.dev/` name that the code writes is listed."""
    written = {
        value
        for key, value in vars(well_known).items()
        if key.isupper() and str(value).startswith("sluice.dev/")
    }
    authority = {REQUEST_ANNOTATION, PUBLISHED_ANNOTATION, SWITCHED_ANNOTATION}
    leases = {
        presence.LABEL,
        presence.SEEN_ANNOTATION,
        presence.EXPIRED_ANNOTATION,
        presence.ENDED_ANNOTATION,
    }
    assert words("Names on objects") == written | authority | leases


@each_case("reason", sorted({*EVENT_REASONS.values()} - {"QueueClosed"}))
def test_each_reason_on_pods_has_its_row(reason: str) -> None:
    """Every event on a pod is listed."""
    assert reason in words("Events")


def test_each_reason_in_the_controller_has_its_row() -> None:
    """Every event that the controller's source names is listed."""
    source = "".join(path.read_text() for path in (ROOT / "controller").rglob("*.py"))
    literal = set(re.findall(r'reason="(\w+)"', source))
    states = {f"Queue{state}" for state in State}
    assert literal | states | set(Action) | set(DRAIN_EVENTS.values()) <= words("Events")


def test_each_event_of_a_drain_has_its_row() -> None:
    """Also those whose names the source does not hold in one word."""
    source = (ROOT / "controller" / "drain" / "eviction.py").read_text()
    said = {row[0]: row[1:] for row in rows("Events")}
    for reason in ("Evicted", "DeletedPastBudget"):
        assert f'"{reason}"' in source
        assert said[reason][0] == "pods"
    assert {said[reason][0] for reason in DRAIN_EVENTS.values()} == {"queues"}


def test_evictions_are_counted_in_the_words_of_the_page() -> None:
    """One word for each way to go, and the reasons."""
    said = {row[0]: row[2] for row in rows("Metrics")}
    pods, workloads = said["sluice_pod_evictions"], said["sluice_workload_suspensions"]
    ways = {action_label(how) for how in DrainAction}
    assert ways - WORKLOAD_STOPS == {word for word in ("Evict", "Delete", "CutGrace") if word in pods}
    assert ways & WORKLOAD_STOPS == {
        word for word in ("Suspend", "Scale") if f"(how: {word}" in workloads or f"({word})" in workloads
    }
    assert pods.endswith(f"reason: {REASON}, {RECLAIMED}, {PREEMPTED}")


def test_each_metric_is_of_the_kind_that_is_told() -> None:
    """Gauges and histograms by name; all others are counters, which are scraped by another name."""
    text = section_of(PAGE, "Metrics").split("\n| metric")[0]
    gauges, histograms, _ = (
        set(re.findall(r"`(sluice_\w+)`", part)) for part in re.split("gauges|histograms", text)
    )
    kinds = {metric.name: metric.type for metric in Metrics().registry.collect()}
    assert {name for name, kind in kinds.items() if kind == "gauge"} == gauges
    assert {name for name, kind in kinds.items() if kind == "histogram"} == histograms
    assert {kinds[name] for name in kinds.keys() - gauges - histograms} == {"counter"}


def test_each_metric_has_its_labels() -> None:
    """In their order."""
    told = {row[0]: [label for label in row[1].split(", ") if label] for row in rows("Metrics")}
    held = {
        one._name: list(one._labelnames) for one in vars(Metrics()).values() if hasattr(one, "_labelnames")
    }
    assert held.items() <= told.items()


def test_conditions_have_known_reasons() -> None:
    """The table of conditions names only causes that verdicts have, and the two good ones; of drains, all."""
    drained = [row[1:3] for row in rows("Conditions") if row[0] == DRAINED]
    assert drained == [[str(one is DrainedReason.DRAINED), one.value] for one in DrainedReason]
    quota = {row[2]: row[1] for row in rows("Conditions") if row[0] == QUOTA_ENFORCED}
    assert quota == {one: str(one is EnforcementReason.ENFORCED) for one in EnforcementReason}
    assert [row[1:3] for row in rows("Conditions") if row[0] == GUARANTEES_MET] == [
        ["False", CAPABILITY_EXCEEDED]
    ]
    own = {DRAINED, POLICY_RESOLVED, QUOTA_ENFORCED, GUARANTEES_MET}
    others = {row[2] for row in rows("Conditions") if row[0] not in own}
    withdrawn = not_acknowledged_condition(verdict("root", tree=Tree({}), live=False, now=datetime.now(UTC)))
    unasked = not_asked_condition(verdict("root", tree=Tree({}), live=False, now=datetime.now(UTC)), "why")
    assert others <= {*CauseKind, "Open", "Ready", withdrawn.reason, unasked.reason}
    for each in (withdrawn, unasked):
        assert [each.type, "Unknown", each.reason] in [row[:3] for row in rows("Conditions")]
    assert QueueObject.__struct_fields__[-1] == "status"


def test_each_reason_of_condition_policy_resolved_has_its_row() -> None:
    told = {tuple(row[1:3]) for row in rows("Conditions") if row[0] == POLICY_RESOLVED}
    good = "actions: allocate\ntiers: [{}]"
    policies = read_policies({GLOBAL_KEY: good, "good": good, "bad": "x"})
    chains = ["good"], ["", "good"], [""], ["none"], ["bad"]
    resolutions = [
        resolve_policy(policies, chain=[(f"q{level}", name) for level, name in enumerate(chain)])
        for chain in chains
    ]
    derived = [policy_condition("q0", resolution) for resolution in resolutions]
    assert {(str(one.status), one.reason) for one in derived if one is not None} == told
    assert {f"{POLICY_RESOLVED}{status}" for status, _ in told} <= words("Events")


def test_each_word_for_what_a_stop_waits_for_has_its_row_in_the_order_of_the_rule() -> None:
    assert [row[0] for row in rows("What a stop waits for")] == [reason.value for reason in ObstacleReason]


def test_the_limits_of_a_namespace_selector_are_the_codes() -> None:
    """And labels of ours are refused."""
    told = {
        row[0]: row[1] for row in rows("Namespace selectors") if row[1][0].isdigit() or "refused" in row[1]
    }
    assert list(told.values())[:3] == [str(LABELS_LIMIT), str(EXPRESSIONS_LIMIT), str(VALUES_LIMIT)]
    assert f"labels of `{RESERVED_PREFIX}" in told


def test_each_selector_that_is_shown_selects_what_is_said() -> None:
    """Each is written as it stands in a manifest."""
    shown = [row[0] for row in rows("Namespace selectors") if row[0].startswith("match") and ":" in row[0]]
    labels = {"team": "a", NAME_LABEL: "lab"}
    for text in shown:
        selector = compile_selector(yaml_texts.load(f"{{{text}}}"))
        assert selector is not None
        assert selector.selects(labels)
        assert not selector.selects({NAME_LABEL: "other"})
    assert len(shown) == 3
