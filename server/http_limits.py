"""How much one caller may ask of the server, and for how long it may take."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A caller that takes a little of an answer now and then has so many times as long as one that takes nothing.
SLOWEST = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of one worker. Times are seconds, sizes are bytes.

    Beyond a size the caller is answered 413 or 431 before more is read; beyond a time it is cut off.
    """

    head_bytes: int = 16 * 1024  # request line and headers; Go's callers send under 1 KiB
    head_lines: int = 100
    body_bytes: int = 8 * 1024 * 1024  # an AdmissionReview carries an object twice, each 1.5 MiB in etcd
    bodies: Mapping[str, int] = field(default_factory=dict)  # by path, where it is not `body_bytes`
    held_bytes: int = 64 * 1024 * 1024  # of unfinished requests, all callers together
    owed_bytes: int = 128 * 1024 * 1024  # of answers that wait to be sent, to all callers together
    streams: int = 250  # requests at once on one connection of HTTP/2
    pipelined: int = 16  # requests waiting on one connection; Go sends one at a time
    connections: int = 4096
    handshake: float = 10.0
    request: float = 10.0  # from its first byte to its last
    reply: float = 10.0  # for the caller to take what we wrote
    idle: float = 120.0  # above the 90 s for which Go's http.Transport reuses a connection
    age: float = 600.0  # then it is closed after a reply, so that callers spread over replicas
    parting: float = 2.0  # for a refused caller to read why
    farewell: float = 1.0  # at a stop, for callers to hear of it with a reply, not by a closed connection

    def body_limit(self, target: bytes) -> int:
        """How long the body of a request for it may be."""
        if not self.bodies:
            return self.body_bytes
        path = target.partition(b"?")[0].decode("latin-1")
        return min(self.bodies.get(path, self.body_bytes), self.body_bytes)
