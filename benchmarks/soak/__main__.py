"""`python -m benchmarks.soak`: the long one, and its part of RESULTS.md.

MINUTES and SCALE make trials of it (see `scale`), which are printed and not kept.
"""

from __future__ import annotations

from benchmarks import result_files, results_page, scale
from benchmarks.__main__ import SECTIONS, say
from benchmarks.soak.row import measure
from localcluster import processes


def main() -> None:
    seen = measure(say)
    print(results_page.section("soak", seen), flush=True)
    if not scale.SOAK_TRIAL:
        result_files.save("soak", seen)
        result_files.write_page(SECTIONS)


if __name__ == "__main__":
    processes.exit_on_signals()
    main()
