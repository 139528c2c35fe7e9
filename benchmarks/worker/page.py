"""What was measured of the workers, kept in `results/`, and said in `README.md` between two marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.worker.attacks import ATTACKS, Attacked
from benchmarks.worker.candidate import CANDIDATES

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results", HERE / "README.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


class Kept(msgspec.Struct, frozen=True):
    """All of one candidate. `speeds` are multiples of Go's, `crowd` of its own undisturbed."""

    speeds: dict[str, dict[str, float]]
    crowd: float
    attacks: dict[str, Attacked]
    rounds: int


_kept = msgspec.json.Decoder(Kept)


def keep(name: str, kept: Kept) -> None:
    RESULTS.mkdir(exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(kept), indent=1)
    (RESULTS / f"{name}.json").write_bytes(encoded + b"\n")


def write() -> None:
    """The page anew, of all that is kept."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{said()}{END}{after}")


def said() -> str:
    files = {name: RESULTS / f"{name}.json" for name in CANDIDATES}
    found = {name: _kept.decode(file.read_bytes()) for name, file in files.items() if file.exists()}
    return "\n".join([*_speeds(found), "", *_attacks(found), ""])


def _speeds(found: dict[str, Kept]) -> Iterator[str]:
    yield "Requests a second as multiples of Go's, serial / 32 at once; and the p99 of serial calls while"
    yield "besieged, as a multiple of the same undisturbed:"
    yield ""
    loads = next(iter(found.values())).speeds if found else {}
    yield _row("worker", *loads, "besieged: p99", "rounds")
    yield "|---|" + "---:|" * (len(loads) + 2)
    for name, kept in found.items():
        speeds = [
            f"{each['serial: requests/s']:.2f} / {each['32 at once: requests/s']:.2f}"
            for each in kept.speeds.values()
        ]
        yield _row(name, *speeds, f"{kept.crowd:.1f}", str(kept.rounds))


def _attacks(found: dict[str, Kept]) -> Iterator[str]:
    yield "Attacked by eight connections of 4 MiB each: the longest wait of another caller on a kept"
    yield "connection, and the memory taken beyond what it was before; each measured once:"
    yield ""
    found = {name: kept for name, kept in found.items() if kept.attacks}
    yield _row("attack", *found)
    yield "|---|" + "---:|" * len(found)
    for attack, words in ATTACKS.items():
        yield _row(words, *(_outcome(kept.attacks.get(attack)) for kept in found.values()))


def _outcome(seen: Attacked | None) -> str:
    if seen is None:
        return ""
    if seen.wait < 0:
        return "nobody was answered"
    return f"{seen.wait:.0f} ms, {seen.memory:.0f} MiB" + ("" if seen.alive else ", **gone**")


def _row(*cells: str | Sequence[str]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
