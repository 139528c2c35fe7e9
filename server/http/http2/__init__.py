"""HTTP/2 (RFC 9113) for clients that send many requests at once on one connection.

The API server has a hundred binds under way and keeps 25 idle connections to a webhook. Over HTTP/1.1 seven
of ten calls needed a new handshake, which cost more than the rest of the call. Over HTTP/2 all share one
connection.

The h2 library implements the protocol. What it does not bound is bounded around it. Bytes pass these modules
in this order:

| module         | what it does                                     | what it bounds                        |
|----------------|--------------------------------------------------|---------------------------------------|
| `connection`   | between the socket and the session               | time per turn, as `run_queue` asks    |
| `frame_reader` | cuts received bytes into batches of whole frames | frame sizes, frames that ask nothing |
| `h2_adapter`   | h2 and hpack, configured                         | headers, before they are decoded      |
| `session`      | the requests of one connection, from h2's events | their number, size and time           |
| `headers`      | from fields to a request, and back for responses |                                       |
| `send_buffer`  | sends responses as the client's windows allow    | responses that are not read           |
"""
