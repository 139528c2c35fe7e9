"""The h2 library's side of a connection, as we have it."""

from __future__ import annotations

import h2.config
import h2.connection
import h2.settings

from server.http.http2 import headers as http2_headers
from server.http.limits import Limits

#: What a caller may send of bodies before we say that it may go on; half of it is given back at a time.
CONNECTION_WINDOW = 16 * 1024 * 1024
FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1
#: Of streams that have ended h2 remembers how, for what is still on its way for them.
REMEMBERED_STREAMS = 1_024


class Connection(h2.connection.H2Connection):
    """h2's, but that it does not count its streams with each request.

    `Session` does, and refuses one request too many, where h2 would end the connection.
    """

    MAX_CLOSED_STREAMS = REMEMBERED_STREAMS

    @property
    def open_inbound_streams(self) -> int:
        if len(self.streams) > REMEMBERED_STREAMS:
            self._open_streams(1)  # forgets those that have ended
        return 0


def build_connection(limits: Limits) -> Connection:
    """h2's side of it. Headers are checked here rather than there: a fault in them ends one stream alone."""
    connection = Connection(
        h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: limits.concurrent_streams,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: min(limits.body_bytes + 1, LARGEST_WINDOW),
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: limits.header_bytes,
        },
    )
    connection.decoder = http2_headers.Decoder(
        fields=limits.header_lines + len(":msap"), max_header_list_size=limits.header_bytes
    )
    connection.initiate_connection()
    connection.increment_flow_control_window(CONNECTION_WINDOW - FIRST_WINDOW)
    return connection
