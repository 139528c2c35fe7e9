"""How the pods of a PodGroup stand, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from kubectl_queue.views.text import plural, with_time_left
from queues.apimachinery.timestamps import parse_timestamp
from queues.text import printable
from queues.why.explanation import Explanation


def gang_texts(explanation: Explanation, *, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    """Sections of a PodGroup: its phase and its pods, what kube-scheduler says, when it gives back."""
    gang = explanation.gang
    if gang is None:
        return
    least = f"{plural(gang.least, 'pod')} {'start' if gang.least > 1 else 'starts'} together"
    pods = f"{gang.pods} exist, {gang.released} of these are released, {gang.placed} are on nodes"
    yield "Phase", [printable(gang.phase) or "none was written yet"]
    yield "Pods", [f"at least {least}: {pods}" if gang.is_held else pods]
    yield "Scheduler", [f"of {plural(each.pods, 'pod')}: {each.text}" for each in gang.said]
    if gang.gives_back_at:
        at = with_time_left(parse_timestamp(gang.gives_back_at), now=now)
        yield "Gives back", [f"{at}, unless enough of its pods are on nodes by then"]
