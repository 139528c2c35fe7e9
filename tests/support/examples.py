"""How many random examples a test tries: fewer in `make test-fast`, many more when asked.

| HYPOTHESIS_PROFILE        | examples                 |
|---------------------------|--------------------------|
| `fast` (`make test-fast`) | a tenth                  |
| unset                     | as many as the test says |
| `thorough`                | ten times as many        |
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = {"fast": 0.1, "": 1.0, "thorough": 10.0}


#: How many a test tries that does not say.
DEFAULT = 100


def scaled(number: int) -> int:
    """`number`, in the proportion of the profile."""
    return max(1, round(number * TIMES[os.environ.get("HYPOTHESIS_PROFILE", "")]))


def examples(number: int, *, same: bool = False) -> settings:
    """A busy machine is no failure, so nothing has a deadline; each run tries other examples.

    `same`: all runs try the same ones, but for those with profile `thorough`: of a test that compares so much
    that one run in many finds a new difference. Whoever changes what it compares runs that profile.
    """
    return settings(
        derandomize=same and os.environ.get("HYPOTHESIS_PROFILE", "") != "thorough",
        max_examples=scaled(number),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
