"""`python -m benchmarks.soak`: the long one, and its part of RESULTS.md.

MINUTES and SCALE make trials of it (see `sizes`), which are printed and not kept.
"""

from __future__ import annotations

from benchmarks import keeping, page, sizes
from benchmarks.__main__ import SECTIONS, say
from benchmarks.soak.measuring import found
from localcluster import processes


def main() -> None:
    seen = found(say)
    print(page.section("soak", seen), flush=True)
    if not sizes.SOAK_TRIAL:
        keeping.keep("soak", seen)
        keeping.write_page(SECTIONS)


if __name__ == "__main__":
    processes.exit_on_signals()
    main()
