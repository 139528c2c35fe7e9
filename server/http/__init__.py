"""The gunicorn worker: one process, one event loop, the WSGI app called on the loop's thread.

A request passes these modules in this order:

| step         | module                               | what it does                                        |
|--------------|--------------------------------------|-----------------------------------------------------|
| accept       | `worker`                             | accepts connections, stops gracefully               |
| TLS          | `handshake`, `client_tls`            | the handshake; ALPN selects HTTP/1.1 or HTTP/2      |
| who may call | `authorization`                      | once for a connection: which paths it may call      |
| connection   | `base_connection`                    | reading, sending, closing: the same for both        |
| HTTP/1.1     | `http1_connection`, `request_parser` | from bytes to requests, answered one by one         |
| HTTP/2       | `http2/`                             | the same for many requests at once                  |
| app          | `responses`                          | from a request to the WSGI app, and to its response |
| large bodies | `large_bodies`                       | calls the app in a thread if decoding may take long |
| refused      | `refusals`                           | counts and logs what never reaches the app          |

These bound what a client can do:

| module             | what it bounds                                                       |
|--------------------|----------------------------------------------------------------------|
| `limits`           | sizes, counts and times, as values                                   |
| `connection_table` | all connections: their number, phases, time-outs and memory          |
| `run_queue`        | the loop's time: one connection's slice before the next one's        |
"""
