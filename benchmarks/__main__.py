"""`python -m benchmarks [ROW ...]`: measure the rows (all but LONG by default) and write RESULTS.md.

SCALE and PAIRS make trials of them (see `scale`), which are printed and not kept.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Mapping

from benchmarks import result_files, results_page, scale
from benchmarks.churn import row as churn
from benchmarks.drain_at_scale import row as drain_at_scale
from benchmarks.figures import RowResult
from benchmarks.filtering import row as filtering
from benchmarks.filtering import row_under_load as filtering_under_load
from benchmarks.growth import row as growth
from benchmarks.quota import gangs as quota_gangs
from benchmarks.quota import row as quota_passes
from benchmarks.quota import sharing as quota_shares
from benchmarks.rows import (
    allocations,
    creations,
    default_settings,
    draining,
    entries,
    gang_flow,
    giving_back,
    live_flow,
    members,
    others,
    page,
    parked,
    previewing,
    quota_flow,
    raising,
    requests,
    resuming,
    starting,
    suspending,
    trees,
    windows,
)
from benchmarks.scoring import members as scored_members
from benchmarks.scoring import row as prioritizing
from benchmarks.settled_rows import SETTLED
from benchmarks.syncing import row as syncing
from localcluster import processes
from localcluster.build import Say

#: Each row's name and what measures it, in the order of the results_page.
ROWS: Mapping[str, Callable[[Say], RowResult]] = {
    "others": others.measure,
    "members": members.measure,
    "allocations": allocations.measure,
    "entries": entries.measure,
    "creations": creations.measure,
    "requests": requests.measure,
    **parked.ROWS,
    **resuming.ROWS,
    **default_settings.ROWS,
    "live-flow": live_flow.measure,
    "quota-flow": quota_flow.measure,
    "gang-flow": gang_flow.measure,
    "quota-pass": quota_passes.measure,
    "gang-pass": quota_gangs.measure,
    "quota-shares": quota_shares.measure,
    "raise-300": raising.measure,
    "give-back": giving_back.measure,
    "suspend": suspending.measure,
    "tree": trees.measure,
    **windows.ROWS,
    "churn": churn.measure,
    "drain": draining.measure,
    "drain-at-scale": drain_at_scale.measure,
    "drain-preview": previewing.measure,
    "sync": syncing.measure,
    "start": starting.measure,
    "filter": filtering.measure,
    "filter-loaded": filtering_under_load.measure,
    "prioritize": prioritizing.measure,
    "scored-members": scored_members.measure,
    "page": page.measure,
    "growth": growth.measure,
}

#: Measured only when it is named: a round takes several minutes.
LONG = frozenset({"entries", "parked-5000-by-filter", "recreated-5000", "unfit-5000", "drain-at-scale"})

#: What has a section on the page: the rows, what `make soak` finds, and the rows that are settled.
SECTIONS = (*ROWS, "soak", *SETTLED)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ROWS]
    for name in SETTLED.keys() & {*unknown}:
        print(f"row {name} is settled and not measured again: {SETTLED[name]}", file=sys.stderr)
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
    print(results_page.section(name, found), flush=True)
    say(f"row {name} took {time.monotonic() - began:.0f} s")
    if not scale.TRIAL:
        result_files.save(name, found)
        result_files.write_page(SECTIONS)
    return True


def say(line: str) -> None:
    """With the time, beside what is measured."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    processes.exit_on_signals()
    raise SystemExit(main(sys.argv[1:]))
