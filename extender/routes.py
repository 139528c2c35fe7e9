"""`POST /extender/filter` and `POST /extender/preempt`.

`/extender/prioritize` will come here with the scheduling policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.cache.store import Store
from cluster.decoding import decode_body
from cluster.exceptions import Unreadable
from extender.filtering import filter_nodes
from extender.preempting import preempt
from extender.wire import encode, filter_decoder, preempt_decoder

#: From the bytes of a request to the bytes of its answer. Raises `cluster.exceptions.Unreadable`.
Handler = Callable[[bytes], bytes]


def handlers(store: Store) -> Mapping[str, Handler]:
    """Each path and what answers it, from `store`."""

    def filter_(body: bytes) -> bytes:
        args = decode_body(body, filter_decoder)
        if args.NodeNames is None:
            raise Unreadable(
                "NodeNames: missing or null; set nodeCacheCapable: true in the scheduler's extender entry"
            )
        return encode(filter_nodes(args, store=store))

    def preempt_(body: bytes) -> bytes:
        args = decode_body(body, preempt_decoder)
        if args.NodeNameToMetaVictims is None and args.NodeNameToVictims is None:
            raise Unreadable("NodeNameToMetaVictims: missing or null")
        return encode(preempt(args, store=store))

    return {"/extender/filter": filter_, "/extender/preempt": preempt_}
