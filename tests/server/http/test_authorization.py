"""Which paths a connection may call, by the names in its client's certificate."""

from __future__ import annotations

from typing import Any

import pytest

from server.http.authorization import (
    Callers,
    allow_probes,
    authorize_by_certificate,
    certificate_names,
)
from tests.support.cases import each_case

CALLERS = Callers(
    scheduler=frozenset({"system:kube-scheduler", "both"}), api_server=frozenset({"kube-apiserver", "both"})
)
EXTENDER = [b"/extender/filter", b"/extender/prioritize", b"/extender/preempt"]
WEBHOOKS = [b"/mutate/pods?timeout=5s", b"/validate/binds"]
PROBES = [b"/healthz", b"/readyz?verbose", b"/metrics"]
#: Paths that the app would read as one of the above, and some that it does not know.
DISGUISED = [b"/%65xtender/filter", b"/extender", b"https://sluice/extender/filter", b"//extender/filter"]


def certificate(*common_names: str, **alternatives: str) -> dict[str, Any]:
    """As `ssl.SSLObject.getpeercert` gives it."""
    return {
        "subject": ((("organizationName", "o"),), *((("commonName", name),) for name in common_names)),
        "subjectAltName": tuple(alternatives.items()),
    }


def statuses(shown: dict[str, Any] | None, targets: list[bytes]) -> set[int]:
    """What the targets are refused with; 200 for none."""
    authorize = authorize_by_certificate(shown, CALLERS)
    errors = [authorize(target) for target in targets]
    return {200 if error is None else error.status for error in errors}


@pytest.mark.parametrize("shown", [None, {}], ids=["no certificate", "one that was not verified"])
def test_without_a_certificate_every_path_is_401(shown: dict[str, Any] | None) -> None:
    assert statuses(shown, [*EXTENDER, *WEBHOOKS, *PROBES, *DISGUISED, b"/", b"/unknown"]) == {401}


def test_a_scheduler_calls_the_extender_and_no_webhook() -> None:
    shown = certificate("system:kube-scheduler")
    assert statuses(shown, [*EXTENDER, *PROBES]) == {200}
    assert statuses(shown, [*WEBHOOKS, *DISGUISED, b"/unknown"]) == {403}


def test_an_api_server_calls_the_webhooks_and_not_the_extender() -> None:
    shown = certificate("kube-apiserver")
    assert statuses(shown, [*WEBHOOKS, *PROBES]) == {200}
    assert statuses(shown, [*EXTENDER, *DISGUISED, b"/unknown"]) == {403}


def test_a_name_of_both_lists_calls_everything() -> None:
    assert statuses(certificate("both"), [*EXTENDER, *WEBHOOKS, *PROBES, b"/unknown"]) == {200}


@each_case(
    "shown",
    [
        certificate("admin"),
        certificate(),
        certificate("system:kube-scheduler ", DNS="sluice.dev"),
        certificate("SYSTEM:KUBE-SCHEDULER"),
        certificate("admin", email="kube-apiserver"),
        certificate("kube-apiserver", "admin"),
    ],
    ids=str,
)
def test_a_certificate_of_another_name_calls_nothing(shown: dict[str, Any]) -> None:
    assert statuses(shown, [*EXTENDER, *WEBHOOKS, *PROBES, *DISGUISED]) == {403}


def test_a_dns_name_and_a_uri_are_names_as_well() -> None:
    shown = certificate("a", DNS="b.example", URI="spiffe://cluster.local/c")
    assert certificate_names(shown) == {"a", "b.example", "spiffe://cluster.local/c"}


def test_an_answer_names_the_certificate_and_the_settings_and_is_short() -> None:
    error = authorize_by_certificate(certificate("x" * 5000), CALLERS)(b"/metrics")
    assert error is not None
    assert "scheduler_callers, api_server_callers" in error.reason
    assert len(error.reason) < 400


def test_the_port_of_the_probes_serves_nothing_else() -> None:
    assert [allow_probes(target) for target in PROBES] == [None] * 3
    for target in [*EXTENDER, *WEBHOOKS, *DISGUISED, b"/healthz/", b"/%68ealthz"]:
        error = allow_probes(target)
        assert error is not None
        assert error.status == 404
