"""`python -m benchmarks.command_pairs N OLD NEW WORD...`: two programs, N times each, in turn.

Prints the median of each and the median of the differences of the pairs, which a busy machine disturbs less.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def main() -> None:
    count, old, new, *words = sys.argv[1:]
    times: dict[str, list[float]] = {old: [], new: []}
    for program in (old, new):
        seconds([program, *words])
    for number in range(int(count)):
        for program in (old, new) if number % 2 else (new, old):
            times[program].append(seconds([program, *words]))
    differences = [after - before for before, after in zip(times[old], times[new], strict=True)]
    for name, program in (("old", old), ("new", new)):
        print(f"{name}: median {statistics.median(times[program]):.3f} s, best {min(times[program]):.3f} s")
    print(f"median of the differences: {statistics.median(differences):+.3f} s")


def seconds(command: list[str]) -> float:
    """How long it takes. Raises CalledProcessError where it fails."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
