"""So many a second, so many at once."""

from __future__ import annotations

from cluster.token_bucket import TokenBucket


def taken(bucket: TokenBucket, *, now: float, tries: int = 100) -> int:
    return sum(bucket.try_take(now) for _ in range(tries))


def test_a_burst_goes_at_once_and_the_rate_after_it() -> None:
    bucket = TokenBucket(5.0, burst=50.0, now=0.0)
    assert taken(bucket, now=0.0) == 50
    assert taken(bucket, now=1.0) == 5
    assert taken(bucket, now=1000.0) == 50


def test_without_a_burst_no_more_gathers_than_a_seconds_worth() -> None:
    assert taken(TokenBucket(5.0, now=0.0), now=100.0) == 5
    assert taken(TokenBucket(0.5, now=0.0), now=100.0) == 1


def test_a_rate_of_0_is_any_number() -> None:
    bucket = TokenBucket(0.0, now=0.0)
    assert (taken(bucket, now=0.0), bucket.wait()) == (100, 0.0)


def test_several_that_go_together_owe_their_tokens() -> None:
    bucket = TokenBucket(1.0, now=0.0)
    assert bucket.ready(0.0)
    bucket.take(3)
    assert bucket.wait() == 3.0
    bucket.take(-2)
    assert (bucket.ready(1.0), bucket.wait()) == (True, 0.0)
