"""`python -m benchmarks [ROW ...]`: measure the rows (all but LONG by default) and write RESULTS.md.

SCALE and PAIRS make trials of them (see `sizes`), which are printed and not kept.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping

from benchmarks import keeping, page, sizes
from benchmarks.drain_at_scale import measuring as drain_at_scale
from benchmarks.figures import Found
from benchmarks.filtering import loaded, measuring
from benchmarks.growth import measuring as growth
from benchmarks.rows import (
    asking,
    creations,
    draining,
    http2,
    members,
    others,
    parked,
    resuming,
    suspending,
    trees,
)
from benchmarks.syncing import measuring as syncing
from localcluster import processes
from localcluster.build import Say

#: Each row's name and what measures it, in the order of the page.
ROWS: Mapping[str, Callable[[Say], Found]] = {
    "others": others.found,
    "members": members.found,
    "creations": creations.found,
    **parked.ROWS,
    **resuming.ROWS,
    "suspend": suspending.found,
    "tree": trees.found,
    "drain": draining.found,
    "drain-at-scale": drain_at_scale.found,
    "sync": syncing.found,
    "asking": asking.found,
    "http2": http2.found,
    "filter": measuring.found,
    "filter-loaded": loaded.found,
    "growth": growth.found,
}

#: Measured only when it is named: a round takes several minutes.
LONG = frozenset({"parked-5000-by-filter", "drain-at-scale"})

#: What has a section on the page: the rows, then what `make soak` finds.
SECTIONS = (*ROWS, "soak")


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are: {', '.join(ROWS)}", file=sys.stderr)
        return 2
    failed = [name for name in names or (row for row in ROWS if row not in LONG) if not _measured(name)]
    if failed:
        say(f"not measured: {', '.join(failed)}")
    return 1 if failed else 0


def _measured(name: str) -> bool:
    """Whether it could be; what is wrong with one row keeps no other from being measured."""
    began = time.monotonic()
    try:
        found = ROWS[name](say)
    except Exception:
        traceback.print_exc()
        return False
    print(page.section(name, found), flush=True)
    say(f"row {name} took {time.monotonic() - began:.0f} s")
    if not sizes.TRIAL:
        keeping.keep(name, found)
        keeping.write_page(SECTIONS)
    return True


def say(line: str) -> None:
    """With the time, beside what is measured."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    processes.exit_on_signals()
    raise SystemExit(main(sys.argv[1:]))
