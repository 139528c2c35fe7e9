"""Logs as JSON lines on standard error, one object a line: time, level, logger, message, and extras."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec
from gunicorn.glogging import Logger  # type: ignore[import-untyped]

#: The fields of every record; any other was given as `extra`.
_STANDARD_FIELDS = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_encoder = msgspec.json.Encoder(enc_hook=str)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; a traceback is in `error`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        try:
            return _encoder.encode(fields).decode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON has no bytes for
            return json.dumps(fields, default=str)


def configure(level: str) -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


class GunicornLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's logger without handlers of its own, so that its records are formatted like ours."""

    def setup(self, cfg: Any) -> None:
        for logger in (self.error_log, self.access_log):
            logger.handlers.clear()
            logger.propagate = True
        self.error_log.setLevel(logging.INFO)
        self.cfg = cfg
