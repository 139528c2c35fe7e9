"""The server: one WSGI app, the gunicorn worker that serves it, and the threads that run beside it.

Read in this order:

| module         | what is in it                                                                       |
|----------------|-------------------------------------------------------------------------------------|
| `main`         | `sluice serve`: settings, certificate, app, gunicorn                                |
| `settings`     | the settings: flags, environment, file                                              |
| `gunicorn_app` | gunicorn's settings; a worker that fails to start ends the server                   |
| `http/`        | the worker: sockets, TLS, HTTP/1.1 and HTTP/2                                       |
| `app`          | every endpoint, the fast path in front of Flask, one JSON form for every error      |
| `runtime`      | builds, starts and stops all threads                                                |
| `logs`         | log records as JSON lines                                                           |

A request passes `http/` (its docstring names the files in order), then the fast path, then its handler in
`extender` or `webhooks`, and only what the fast path does not serve passes through Flask.
"""
