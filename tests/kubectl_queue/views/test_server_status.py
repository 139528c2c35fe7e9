"""`kubectl queue status`: what is a problem, and what comes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.views.server_status import (
    ReplicaStatus,
    RetryStatus,
    Seen,
    ServerStatus,
    WebhookStatus,
    seen,
    with_problems,
)
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW

LATE, SOON = NOW + timedelta(days=300), NOW + timedelta(days=13)


def replica(name: str = "a", **facts: Any) -> ReplicaStatus:
    known = {"answers": True, "leads": name == "a", "queues": Seen.CURRENT, "renewed": NOW, "version": "1.0"}
    return ReplicaStatus(name=name, **{**known, "certificate_until": LATE, **facts})


def webhook(kind: str, **facts: Any) -> WebhookStatus:
    known: dict[str, Any] = {"failure_policy": "Fail", "has_bundle": True, "certificates_until": (LATE,)}
    return WebhookStatus(name=f"{kind.lower()}.sluice.dev", kind=kind, **{**known, **facts})


def problems(**parts: Any) -> tuple[str, ...]:
    whole: dict[str, Any] = {
        "replicas": (replica(), replica("b")),
        "webhooks": (webhook("Mutating"), webhook("Validating")),
        "authority_until": (LATE,),
    }
    status = ServerStatus(namespace="sluice-system", plugin_version="1.0", **{**whole, **parts})
    return with_problems(status, now=NOW).problems


def test_a_server_that_is_well_has_no_problem() -> None:
    assert problems() == ()


def test_what_could_not_be_read_is_no_problem() -> None:
    assert problems(replicas=None, webhooks=None, authority_until=()) == ()


@each_case(
    ("parts", "said"),
    [
        ({"replicas": ()}, "no replica of Sluice answers: statuses are of before, no stop is acknowledged"),
        (
            {"replicas": (), "led_until": NOW},
            "no replica of Sluice answers since 2030-01-01T12:00:00Z (0s ago",
        ),
        (
            {"replicas": (replica(answers=False, queues=Seen.BEHIND),)},
            f"no replica of Sluice answers since {NOW:%Y-%m-%dT%H:%M:%SZ}",
        ),
        ({"replicas": (replica("b"),)}, "no replica of Sluice leads: statuses are of before"),
        ({"replicas": (replica("b"),), "led_until": NOW}, "no replica of Sluice leads since 2"),
        ({"replicas": (replica(), replica("b", queues=Seen.BEHIND))}, '"b" has not seen the latest change'),
        ({"replicas": (replica(), replica("b", version="1.1"))}, 'replicas of versions "1.0", "1.1" run'),
        (
            {"replicas": (replica(build="1f", started=SOON), replica("b", build="2a", started=LATE))},
            'replicas of two builds run together, as in a roll-out: "a" of another build than "b", which',
        ),
        (
            {"replicas": (replica(), replica("b"), replica("sluice-replica-x", answers=False, foreign=True))},
            'no replica has written Lease "sluice-replica-x", and a stop may wait for it: '
            "kubectl delete lease sluice-replica-x -n sluice-system",
        ),
        ({"replicas": (replica(version="1.1"),)}, "the plugin is of version 1.0, the server of 1.1"),
        ({"replicas": (replica(certificate_until=SOON),)}, "the certificate of a expires soon"),
        ({"replicas": (replica(certificate_until=NOW),)}, "the certificate of a has expired"),
        ({"webhooks": (webhook("Validating"),)}, "there are no mutating webhooks: new pods get no gate"),
        ({"webhooks": (webhook("Mutating"),)}, "there are no validating webhooks: "),
        (
            {
                "webhooks": (
                    webhook("Mutating", has_bundle=False, certificates_until=()),
                    webhook("Validating"),
                )
            },
            'no caBundle is set for "mutating.sluice.dev"',
        ),
        (
            {"webhooks": (webhook("Mutating", certificates_until=(SOON,)), webhook("Validating"))},
            "what the webhooks trust expires soon",
        ),
        ({"authority_until": (SOON,)}, "the authority expires soon"),
        (
            {"replicas": (replica(retrying=(RetryStatus("quota-book", NOW, "403 no"),)),)},
            f"quota-book of a fails since {NOW:%Y-%m-%d %H:%M:%S} UTC, so that no pod of a queue with a quota"
            " is released: 403 no",
        ),
        (
            {"replicas": (replica(retrying=(RetryStatus("reflector-pods", None, "410 gone"),)),)},
            "reflector-pods of a fails, so that what is known of the cluster grows old: 410 gone",
        ),
        ({"replicas": (replica(retrying=(RetryStatus("else", None, "no"),)),)}, "else of a fails: no"),
    ],
)
def test_what_is_wrong_is_said_once_with_what_comes_of_it(parts: dict[str, Any], said: str) -> None:
    (problem,) = problems(**parts)
    assert problem.startswith(said)


def test_another_namespace_has_no_sluice() -> None:
    """What is true of the server in its own namespace is not said."""
    status = ServerStatus(namespace="foo", plugin_version="1.0", replicas=(), webhooks=None)
    told = with_problems(status, now=NOW, registered="sluice-system").problems
    assert told == ('no Sluice in namespace "foo"; try -n sluice-system',)


@pytest.mark.parametrize("replicas", [(), (replica(answers=False),)], ids=["none", "gone"])
def test_without_webhooks_no_work_is_refused(replicas: tuple[ReplicaStatus, ...]) -> None:
    told = problems(replicas=replicas, webhooks=())
    assert told == ("no webhook of Sluice is registered, and no replica answers: nothing acts on queues",)


def test_an_authority_that_is_replaced_is_no_problem() -> None:
    """The next one is in the bundle beside it."""
    both = (NOW - timedelta(days=1), LATE)
    assert problems(authority_until=both) == ()


@each_case(
    ("version", "newest", "is_seen"),
    [
        (0, 7, Seen.UNKNOWN),
        (7, None, Seen.UNKNOWN),
        (6, 7, Seen.BEHIND),
        (7, 7, Seen.CURRENT),
        (9, 7, Seen.CURRENT),
    ],
)
def test_a_replica_is_behind_while_it_knows_less_than_there_is(
    version: int, newest: int | None, is_seen: Seen
) -> None:
    assert seen(version, newest=newest) is is_seen
