"""The rule by which the authority is replaced: each step, and each case in which none is taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from certs import authority
from certs.authority import LEAF_VALIDITY, SKEW, Authority, AuthorityForeign, expires, fingerprint, split
from certs.rotation import (
    LAST_CERTIFICATE,
    REPLACE_BEFORE,
    AuthorityState,
    RotationEvidence,
    RotationStep,
    decide,
    is_due,
    known,
    status,
)
from tests.support.cases import each_case

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
WAIT = timedelta(days=30)
DAY = timedelta(days=1)


def new(now: datetime = NOW) -> Authority:
    return authority.create(name="sluice", now=now)


OLD, NEXT, CREATED = new(), new(), new()
STEADY = AuthorityState(OLD)
PUBLISHED = AuthorityState(OLD, next=NEXT, published=NOW)
SWITCHED = AuthorityState(NEXT, former=(OLD.certificate,), switched=NOW)
SEEN = RotationEvidence(
    published=True, issuers={"a": fingerprint(OLD.certificate), "b": fingerprint(OLD.certificate)}
)


def decided(state: AuthorityState, *, evidence: RotationEvidence = SEEN, now: datetime = NOW) -> RotationStep:
    return decide(state, now=now, evidence=evidence, wait=WAIT, create=lambda: CREATED)


def asked(state: AuthorityState, request: str) -> AuthorityState:
    return replace(state, request=request)


def test_nothing_is_done_to_a_young_authority_that_nobody_wants_replaced() -> None:
    assert decided(STEADY) == RotationStep(STEADY)


@pytest.mark.parametrize(
    ("left", "due"), [(REPLACE_BEFORE + DAY, False), (REPLACE_BEFORE, True), (DAY, True)]
)
def test_the_next_one_is_published_long_before_the_end(left: timedelta, due: bool) -> None:
    now = expires(OLD.certificate) - left
    assert is_due(STEADY, now=now) is due
    assert (decided(STEADY, now=now).state.next is CREATED) is due


def test_there_is_time_to_wait_and_for_the_last_certificate_before_the_end() -> None:
    """Also with the longest wait that the setting takes."""
    assert timedelta(days=180) + LEAF_VALIDITY < REPLACE_BEFORE


def test_the_next_one_is_published_when_asked_for() -> None:
    step = decided(asked(STEADY, "start"))
    assert step.state == AuthorityState(OLD, next=CREATED, published=NOW)
    assert fingerprint(CREATED.certificate) in step.done


@each_case("issuers", [{}, {"a": fingerprint(OLD.certificate), "b": None}])
@each_case(
    ("state", "now"),
    [(asked(STEADY, "start"), NOW), (asked(PUBLISHED, "switch"), NOW), (PUBLISHED, NOW + WAIT)],
)
def test_no_step_is_taken_while_a_replica_does_not_say_by_what_it_serves(
    state: AuthorityState, now: datetime, issuers: dict[str, str | None]
) -> None:
    """It may be of an older version, which writes the first certificate alone into caBundle."""
    step = decided(state, evidence=RotationEvidence(published=True, issuers=issuers), now=now)
    assert step.state == state
    assert step.waits


@pytest.mark.parametrize(
    ("request_", "later", "switched"),
    [("", timedelta(), False), ("", WAIT - DAY, False), ("", WAIT, True), ("switch", timedelta(), True)],
)
def test_the_next_one_is_used_after_the_wait_or_when_somebody_confirms(
    request_: str, later: timedelta, switched: bool
) -> None:
    now = NOW + later
    state = asked(PUBLISHED, request_)
    expected = AuthorityState(NEXT, former=(OLD.certificate,), switched=now) if switched else state
    assert decided(state, now=now).state == expected


def test_it_is_never_used_before_the_webhooks_have_had_it_for_a_while() -> None:
    step = decided(asked(PUBLISHED, "switch"), evidence=replace(SEEN, published=False), now=NOW + WAIT)
    assert step.state == asked(PUBLISHED, "switch")
    assert "webhooks" in step.waits


def test_one_that_was_put_there_by_hand_is_published_from_then_on() -> None:
    step = decided(replace(PUBLISHED, published=None, request="switch"))
    assert step.state == asked(PUBLISHED, "switch")


def test_a_date_in_the_future_is_taken_for_today() -> None:
    """The API server's clock was ahead when it was written."""
    assert decided(replace(PUBLISHED, published=NOW + 400 * DAY)).state == PUBLISHED
    assert decided(replace(SWITCHED, switched=NOW + 400 * DAY)).state == SWITCHED


def test_the_key_of_the_former_one_is_kept_nowhere() -> None:
    state = decided(asked(PUBLISHED, "switch")).state
    assert OLD.key not in (state.current.key, *state.former)


@pytest.mark.parametrize(
    ("later", "trusted"),
    [(timedelta(), True), (LEAF_VALIDITY, True), (LAST_CERTIFICATE - DAY, True), (LAST_CERTIFICATE, False)],
)
def test_the_former_one_is_trusted_until_its_last_certificate_has_ended(
    later: timedelta, trusted: bool
) -> None:
    state = decided(SWITCHED, now=NOW + later).state
    assert state == (SWITCHED if trusted else AuthorityState(NEXT))


def test_a_former_one_that_has_expired_is_dropped() -> None:
    expired = authority.create(name="sluice", now=NOW - 20 * DAY, validity=10 * DAY)
    both = replace(SWITCHED, former=(*SWITCHED.former, expired.certificate))
    assert decided(both).state == SWITCHED


@pytest.mark.parametrize(
    ("issuers", "dropped"),
    [
        ({"a": NEXT, "b": NEXT}, True),
        ({"a": NEXT, "b": OLD}, False),
        ({"a": NEXT, "b": None}, False),
        ({}, False),
    ],
)
def test_it_is_dropped_when_asked_for_once_no_replica_serves_by_it(
    issuers: dict[str, Authority | None], dropped: bool
) -> None:
    known_issuers = {
        name: None if each is None else fingerprint(each.certificate) for name, each in issuers.items()
    }
    step = decided(asked(SWITCHED, "drop"), evidence=RotationEvidence(published=True, issuers=known_issuers))
    assert step.state == (AuthorityState(NEXT) if dropped else asked(SWITCHED, "drop"))
    assert bool(step.waits) is not dropped


def test_a_replica_that_lags_is_named() -> None:
    issuers = {"fast": fingerprint(NEXT.certificate), "slow": fingerprint(OLD.certificate)}
    assert "slow" in decided(asked(SWITCHED, "drop"), evidence=RotationEvidence(issuers=issuers)).waits


@each_case(
    ("state", "request_"),
    [
        (PUBLISHED, "start"),
        (STEADY, "switch"),
        (SWITCHED, "switch"),
        (STEADY, "drop"),
        (PUBLISHED, "drop"),
        (STEADY, "adopt"),
    ],
)
def test_what_asks_for_nothing_is_answered_and_removed(state: AuthorityState, request_: str) -> None:
    step = decided(asked(state, request_))
    assert step.state == state
    assert f"={request_} asks for nothing" in step.done


def test_an_unknown_word_is_left_and_said() -> None:
    step = decided(asked(STEADY, "rotate"))
    assert step.state == asked(STEADY, "rotate")
    assert "'rotate'" in step.waits


def test_an_expired_authority_is_replaced_at_once() -> None:
    """Nobody trusts it any more, so there is nothing to wait for."""
    step = decided(STEADY, evidence=RotationEvidence(), now=expires(OLD.certificate))
    assert step.state == AuthorityState(CREATED)
    assert "schedulers need the new bundle" in step.done


def test_an_expired_authority_is_replaced_by_the_next_one_where_there_is_one() -> None:
    young = new(NOW + 3000 * DAY)
    state = replace(PUBLISHED, next=young)
    assert decided(state, evidence=RotationEvidence(), now=expires(OLD.certificate)).state == AuthorityState(
        young
    )


def test_the_bundle_has_each_certificate_once_and_the_current_one_first() -> None:
    state = AuthorityState(OLD, next=NEXT, former=(CREATED.certificate, OLD.certificate))
    assert split(state.bundle) == (OLD.certificate, NEXT.certificate, CREATED.certificate)
    assert AuthorityState(OLD).bundle == OLD.certificate


@pytest.mark.parametrize(
    "trusted",
    [[], [OLD.certificate], [OLD.certificate, CREATED.certificate]],
    ids=["nothing", "it", "it and another"],
)
def test_an_authority_that_the_webhooks_trust_is_known(trusted: list[bytes]) -> None:
    assert known(STEADY, trusted=trusted, now=NOW, where="Secret s").state == STEADY


def test_one_that_was_made_beside_what_the_webhooks_trust_is_known() -> None:
    assert known(SWITCHED, trusted=[OLD.certificate], now=NOW, where="Secret s").state == SWITCHED


@pytest.mark.parametrize("state", [STEADY, PUBLISHED, replace(STEADY, former=(NEXT.certificate,))])
def test_an_authority_that_nobody_published_is_refused_by_name_with_the_way_out(
    state: AuthorityState,
) -> None:
    with pytest.raises(AuthorityForeign) as refused:
        known(state, trusted=[CREATED.certificate, NEXT.certificate], now=NOW, where="Secret s/ca")
    for part in ("Secret s/ca", fingerprint(OLD.certificate), fingerprint(CREATED.certificate), "adopt"):
        assert part in str(refused.value)


def test_it_is_taken_over_when_asked_for_and_the_other_stays_trusted() -> None:
    step = known(asked(STEADY, "adopt"), trusted=[CREATED.certificate], now=NOW, where="Secret s")
    assert step.state == AuthorityState(OLD, former=(CREATED.certificate,), switched=NOW)


def test_an_authority_that_expired_while_the_next_one_was_published_is_known() -> None:
    """No replica ran for years, for instance."""
    young = new(NOW + 3000 * DAY)
    state, trusted = replace(PUBLISHED, next=young), [OLD.certificate, young.certificate]
    assert known(state, trusted=trusted, now=expires(OLD.certificate), where="Secret s").state == state


def test_what_has_expired_is_trusted_by_nobody() -> None:
    expired = authority.create(name="sluice", now=NOW - 20 * DAY, validity=10 * DAY)
    assert known(STEADY, trusted=[expired.certificate], now=NOW, where="Secret s").state == STEADY


@pytest.mark.parametrize(
    ("state", "parts"),
    [
        (STEADY, [fingerprint(OLD.certificate)]),
        (PUBLISHED, [fingerprint(NEXT.certificate), "2030-02-01", "sluice.dev/ca-rotation=switch"]),
        (SWITCHED, [fingerprint(OLD.certificate), "2031-01-03", "sluice.dev/ca-rotation=drop"]),
    ],
)
def test_the_status_says_where_it_stands_and_how_it_goes_on(state: AuthorityState, parts: list[str]) -> None:
    text = status(state, wait=WAIT)
    assert [part for part in parts if part not in text] == []
    assert "\n" not in text


def test_a_day_is_left_for_a_replica_that_was_late() -> None:
    assert LAST_CERTIFICATE == LEAF_VALIDITY + SKEW
