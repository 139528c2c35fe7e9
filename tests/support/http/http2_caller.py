"""HTTP/2 from the caller's side, frame by frame."""

import hpack
from h2.settings import SettingCodes as Setting

import tests.support.http.http2_frames_out as frames
from server.http.http2.frame_reader import (
    FRAME_BYTES,
    FRAME_HEADER_BYTES,
    PREFACE,
    Kind,
    parse_header,
)

Frame = tuple[int, int, int, bytes]


class Words:
    """What a caller says: the state of one connection."""

    def __init__(self) -> None:
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._rest = b""

    @staticmethod
    def greeting(**settings: int) -> bytes:
        """The preface and the caller's settings."""
        return PREFACE + frames.settings({Setting[key]: value for key, value in settings.items()})

    def block(self, path: str = "/echo", *, method: str = "POST", **more: str) -> bytes:
        """Headers of a request; of `more`, underscores stand for dashes."""
        given = {
            ":method": method,
            ":scheme": "https",
            ":authority": "localhost",
            ":path": path,
            **{key.replace("_", "-"): value for key, value in more.items()},
        }
        return self.headers(list(given.items()))

    def headers(self, given: list[tuple[str, str]]) -> bytes:
        """As they are."""
        encoded: bytes = self._encoder.encode(given)
        return encoded

    def ask(self, stream: int, path: str = "/echo", *, body: bytes = b"", method: str = "POST") -> bytes:
        """A whole request."""
        head = frames.headers(stream, self.block(path, method=method), ends=not body)
        pieces = [body[at : at + FRAME_BYTES] for at in range(0, len(body), FRAME_BYTES)]
        return head + b"".join(
            frames.data(stream, piece, ends=number == len(pieces)) for number, piece in enumerate(pieces, 1)
        )

    def read(self, data: bytes) -> list[Frame]:
        """The frames that have become whole: kind, flags, stream and payload."""
        found, self._rest = [], self._rest + data
        while len(self._rest) >= FRAME_HEADER_BYTES:
            size, kind, flags, stream = parse_header(self._rest)
            if len(self._rest) < FRAME_HEADER_BYTES + size:
                break
            payload = self._rest[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + size]
            self._rest = self._rest[FRAME_HEADER_BYTES + size :]
            found.append((kind, flags, stream, payload))
        return found

    def fields(self, block: bytes) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._decoder.decode(block)}


def only(kind: Kind, found: list[Frame]) -> list[Frame]:
    return [frame for frame in found if frame[0] == kind]
