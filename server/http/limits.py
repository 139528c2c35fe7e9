"""How much one caller may ask of the server, and for how long it may take.

What the sizes of bodies rest on: kube-apiserver takes a request of 3 MiB (`MaxRequestBodyBytes`) and etcd an
object of 1.5 MiB (`--max-request-bytes`). Both reach us as JSON by Go, which writes each `<`, `>` and `&` as
six bytes (`\\u003c`): an object of a request is up to 18 MiB, a stored one up to 9 MiB. A review holds one of
each. A filter call holds a stored pod, and the names of 5,000 nodes of up to 253 characters.
A Binding and a Scale hold metadata alone, and so does a namespace, which comes twice: an object's annotations
have 256 KiB in all. What is longer is answered 413. For a review that is an object which could not be stored
either.
"""

from dataclasses import dataclass

#: A caller that takes a little of an answer now and then has so many times as long as one that takes nothing.
SLOW_READER_FACTOR = 6

MIB = 1024 * 1024
API_REQUEST_BYTES = 3 * MIB  # of any request to kube-apiserver
ETCD_OBJECT_BYTES = 3 * MIB // 2  # of any object in etcd
JSON_ESCAPE_FACTOR = 6  # bytes of JSON for one that Go escapes
#: `/mutate/...` and `/validate/...`: both objects, and who asks with which options.
REVIEW_BYTES = (API_REQUEST_BYTES + ETCD_OBJECT_BYTES) * JSON_ESCAPE_FACTOR + MIB
#: `/extender/...`: the pod, and nodes or victims.
EXTENDER_BYTES = ETCD_OBJECT_BYTES * JSON_ESCAPE_FACTOR + 3 * MIB
#: Any other path: nobody has to send anything there.
OTHER_BYTES = MIB
#: Where nobody sends a body.
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

    Beyond a size the caller is answered 413 or 431 before more is read; beyond a time it is cut off.
    """

    header_bytes: int = 16 * 1024  # request line and headers; Go's callers send under 1 KiB
    header_lines: int = 100
    body_bytes: int = REVIEW_BYTES  # of any path; `body_limit` says what is one's own
    buffered_request_bytes: int = 64 * 1024 * 1024  # of unfinished requests, all callers together
    unsent_response_bytes: int = 128 * 1024 * 1024  # of answers that wait to be sent, to all callers together
    concurrent_streams: int = 250  # requests at once on one connection of HTTP/2
    pipelined_requests: int = 16  # requests waiting on one connection; Go sends one at a time
    connections: int = 4096
    handshake_timeout: float = 10.0
    request_timeout: float = 10.0  # from its first byte to its last
    response_timeout: float = 10.0  # for the caller to take what we wrote
    idle_timeout: float = 120.0  # above the 90 s for which Go's http.Transport reuses a connection
    connection_age: float = 600.0  # then it is closed after a reply, so that callers spread over replicas
    linger_timeout: float = 2.0  # for a refused caller to read why
    shutdown_notice: float = (
        1.0  # at a stop, for callers to hear of it with a reply, not by a closed connection
    )

    def body_limit(self, target: bytes) -> int:
        """The bytes that the body of a request for this target may have."""
        path = target.partition(b"?")[0].decode("latin-1")
        own = _BY_PATH.get(path)
        if own is None:
            own = next((size for prefix, size in _BY_PREFIX if path.startswith(prefix)), OTHER_BYTES)
        return min(own, self.body_bytes)
