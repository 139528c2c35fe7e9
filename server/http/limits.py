"""The bounds of a worker: sizes, numbers and times.

The sizes of bodies follow from two limits: kube-apiserver takes a request of 3 MiB (`MaxRequestBodyBytes`),
and etcd an object of 1.5 MiB (`--max-request-bytes`). Both reach us as JSON written by Go, which escapes each
`<`, `>` and `&` as six bytes (`\\u003c`): so an object of a request has up to 18 MiB, and a stored one up to
9 MiB. A review has one of each. A filter call has a stored pod, and the names of 5,000 nodes of up to 253
characters. A Binding and a Scale have only metadata, and so has a namespace, which comes twice: the
annotations of an object have 256 KiB in all. A longer body is answered 413; the object of such a review could
not be stored either.
"""

from dataclasses import dataclass

#: A client that reads a response slowly is given so many times the `response_timeout` of one that reads
#: nothing.
SLOW_READER_FACTOR = 6

MIB = 1024 * 1024
API_REQUEST_BYTES = 3 * MIB  # of any request to kube-apiserver
ETCD_OBJECT_BYTES = 3 * MIB // 2  # of any object in etcd
JSON_ESCAPE_FACTOR = 6  # bytes of JSON for one that Go escapes
#: `/mutate/...` and `/validate/...`: both objects, the user, and the options.
REVIEW_BYTES = (API_REQUEST_BYTES + ETCD_OBJECT_BYTES) * JSON_ESCAPE_FACTOR + MIB
#: `/extender/...`: the pod, and nodes or victims.
EXTENDER_BYTES = ETCD_OBJECT_BYTES * JSON_ESCAPE_FACTOR + 3 * MIB
#: Any other path; no client has to send a body there.
OTHER_BYTES = MIB
#: Paths that are read with GET.
NO_BODY_BYTES = 4 * 1024
_BY_PATH = {
    "/validate/binds": 2 * MIB,
    "/validate/scales": 2 * MIB,
    "/mutate/namespaces": 5 * MIB,
    "/healthz": NO_BODY_BYTES,
    "/readyz": NO_BODY_BYTES,
    "/metrics": NO_BODY_BYTES,
}
_BY_PREFIX = (
    ("/mutate/", REVIEW_BYTES),
    ("/validate/", REVIEW_BYTES),
    ("/extender/", EXTENDER_BYTES),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of one worker. Times are seconds, sizes are bytes.

    Beyond a size the client is answered 413 or 431 before more is read; beyond a time its connection is
    closed.
    """

    header_bytes: int = 16 * 1024  # request line and headers; Go's callers send under 1 KiB
    header_lines: int = 100
    body_bytes: int = REVIEW_BYTES  # the most for any path; `body_limit` has each path's own
    buffered_request_bytes: int = 64 * 1024 * 1024  # of unfinished requests, all clients together
    unsent_response_bytes: int = 128 * 1024 * 1024  # that wait to be sent, to all clients together
    concurrent_streams: int = 250  # requests at once on one HTTP/2 connection
    pipelined_requests: int = 16  # requests waiting on one connection; Go sends one at a time
    connections: int = 4096
    handshake_timeout: float = 10.0
    request_timeout: float = 10.0  # from its first byte to its last
    response_timeout: float = 10.0  # for the client to read what we wrote
    idle_timeout: float = 120.0  # above the 90 s for which Go's http.Transport reuses a connection
    connection_age: float = 600.0  # then closed after a response, so that clients spread over replicas
    linger_timeout: float = 2.0  # for the client to read an error
    shutdown_notice: float = 1.0  # at a stop, responses tell clients to leave before connections are closed

    def body_limit(self, target: bytes) -> int:
        """The bytes that the body of a request for this target may have."""
        path = target.partition(b"?")[0].decode("latin-1")
        own = _BY_PATH.get(path)
        if own is None:
            own = next((size for prefix, size in _BY_PREFIX if path.startswith(prefix)), OTHER_BYTES)
        return min(own, self.body_bytes)
