"""`POST /extender/filter`, `POST /extender/prioritize` and `POST /extender/preempt`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cluster.cache.store import Store
from cluster.decoding import decode_body
from cluster.exceptions import Unreadable
from cluster.objects import Metadata
from extender.filtering import filter_nodes
from extender.preempting import preempt
from extender.prioritizing import NOT_READ_FOR_SCORES, follow_filter, prioritize, will_be_scored
from extender.wire import FilterResult, encode, filter_decoder, preempt_decoder, prioritize_decoder

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring

#: What Kubernetes allows; no UID is nearly as long. What is longer is kept for no pod.
_LONGEST = {"name": 253, "namespace": 253, "uid": 253}

#: From the bytes of a request to the bytes of its answer. Raises `cluster.exceptions.Unreadable`.
ExtenderHandler = Callable[[bytes], bytes]
Scoring = Callable[[], "NodeScoring | None"]


def handlers(
    store: Store,
    *,
    scoring: Scoring = lambda: None,
    is_reading_for_scores: Callable[[], bool] = bool,
) -> Mapping[str, ExtenderHandler]:
    """Each path and what answers it, from `store`. `scoring`: what scores nodes now.

    `is_reading_for_scores`: whether nodes and pods are being read for policies that have begun to score.
    """

    def filter_(body: bytes) -> bytes:
        args = decode_body(body, filter_decoder)
        _check_names(args.Pod.metadata)
        _check_node_names(args.NodeNames)
        if is_reading_for_scores() and will_be_scored(args.Pod, store=store):
            return encode(FilterResult(Error=NOT_READ_FOR_SCORES))
        result = filter_nodes(args, store=store)
        follow_filter(args, result, body=body, store=store, scoring=scoring())
        return encode(result)

    def preempt_(body: bytes) -> bytes:
        args = decode_body(body, preempt_decoder)
        _check_names(args.Pod.metadata)
        if args.NodeNameToMetaVictims is None and args.NodeNameToVictims is None:
            raise Unreadable("NodeNameToMetaVictims: missing or null")
        return encode(preempt(args, store=store))

    def prioritize_(body: bytes) -> bytes:
        args = decode_body(body, prioritize_decoder)
        _check_names(args.Pod.metadata)
        _check_node_names(args.NodeNames)
        return encode(prioritize(args, store=store, scoring=scoring()))

    return {
        "/extender/filter": filter_,
        "/extender/prioritize": prioritize_,
        "/extender/preempt": preempt_,
    }


def _check_node_names(names: list[str] | None) -> None:
    """Raises `Unreadable` where the scheduler sends whole nodes instead of their names."""
    if names is None:
        raise Unreadable(
            "NodeNames: missing or null; set nodeCacheCapable: true in the scheduler's extender entry"
        )


def _check_names(meta: Metadata) -> None:
    """Raises `Unreadable` for names that no pod has: calls may be made up, and names are kept for a while."""
    for field, longest in _LONGEST.items():
        if len(getattr(meta, field)) > longest:
            raise Unreadable(f"Pod.metadata.{field}: longer than {longest} characters")
