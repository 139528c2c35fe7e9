"""The routes of one queue.

| path below `/api/queues/NAME` | answers                                         | asks the API server |
|-------------------------------|-------------------------------------------------|---------------------|
| GET, nothing below            | the text of `why`, drain, history (`one_queue`) | no                  |
| GET `/waiting?after=`         | its pods that wait, 500 at a time               | yes                 |
| GET `/rights`                 | whether the viewer may edit it, and why not     | yes                 |
| POST `/preview`               | what an edit would do (`edits`)                 | for Volcano's hooks |
| POST `/pods`                  | which pods an edit would evict                  | yes                 |
| POST `/edits`                 | writes it                                       | yes                 |
| GET `/progress?verb=&since=`  | how far an edit is                              | no                  |
"""

from __future__ import annotations

from flask import Flask, Response, request

from kubectl_queue.access.volcano import queue_webhook
from kubectl_queue.errors import ConflictError
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.ui import edits, one_queue
from kubectl_queue.ui.backend import Backend, Places, decoded, ignore, json_answer
from kubectl_queue.views.server_status import refused_edits_text

#: What leads to states in which Volcano's own webhook refuses each edit.
_INTO_A_TRAP = frozenset({"suspend", "close"})


def add_queue_routes(app: Flask, backend: Backend, places: Places) -> None:
    _add_reading(app, backend, places)
    _add_editing(app, backend, places)


def _add_reading(app: Flask, backend: Backend, places: Places) -> None:
    @app.get("/api/queues/<name>")
    def queue(name: str) -> Response:
        shown = backend.board.shown()
        lost = shown.outage.partition(": ")[0]
        return json_answer(one_queue.opened(shown.frame, name, now=backend.now(), lost=lost))

    @app.get("/api/queues/<name>/waiting")
    def waiting(name: str) -> Response:
        _find(backend, name)
        with places.question():
            after = request.args.get("after", "")
            return json_answer(one_queue.waiting_pods(backend.connect(ignore).client, name, after=after))

    @app.get("/api/queues/<name>/rights")
    def rights(name: str) -> Response:
        _find(backend, name)
        with places.question():
            return json_answer(one_queue.rights(backend.connect(ignore).client, name))

    @app.get("/api/queues/<name>/progress")
    def progress(name: str) -> Response:
        since = request.args.get("since", 0, type=int)
        return json_answer(
            edits.progress(request.args.get("verb", ""), name, _find(backend, name), since=since)
        )


def _add_editing(app: Flask, backend: Backend, places: Places) -> None:
    @app.post("/api/queues/<name>/preview")
    def preview(name: str) -> Response:
        wanted = decoded(edits.DECODE_WANTED)
        shown = edits.preview(wanted, name, _find(backend, name))
        if wanted.verb in _INTO_A_TRAP:
            with places.question():
                configuration = queue_webhook(backend.connect(ignore).client)
            if configuration:
                shown = edits.with_warning(shown, refused_edits_text(configuration))
        return json_answer(shown)

    @app.post("/api/queues/<name>/pods")
    def pods(name: str) -> Response:
        wanted, queues = decoded(edits.DECODE_WANTED), _find(backend, name)
        with places.question():
            return json_answer(edits.drain_pods(wanted, name, queues, backend.connect(ignore).client))

    @app.post("/api/queues/<name>/edits")
    def edit(name: str) -> Response:
        agreed, queues = decoded(edits.DECODE_AGREED), _find(backend, name)
        said: list[str] = []
        with places.question():
            try:
                written, item = edits.write(agreed, name, queues, backend.connect(said.append).queues)
            except ConflictError as exc:
                return json_answer({"error": str(exc), "isConflict": True}, status=exc.code)
        backend.written(item)
        return json_answer(edits.with_warnings(written, said))


def _find(backend: Backend, name: str) -> QueueObjects:
    return one_queue.find(backend.board.shown().frame, name, now=backend.now())
