"""The command `kubectl queue`.

Promises
- Exit codes: 0 done or nothing to do, 1 anything that went wrong, 130 interrupted, 141 when the
  reader of stdout went away.
- Never a stack trace. What takes time to import is imported inside, so that an interrupt meanwhile shows
  none. An unexpected error is one line too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

FAILED, INTERRUPTED, READER_GONE = 1, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Else the interpreter complains when it flushes at the end.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - lives until the end
        return READER_GONE
    except OSError as exc:
        print(f"error: {exc.strerror or exc}", file=sys.stderr)
        return FAILED
    except Exception as exc:
        print(f"error: {exc!r}; this is a mistake in kubectl queue, please report it", file=sys.stderr)
        return FAILED


def _run(words: Sequence[str]) -> int:
    from kubectl_queue.cli.run import run  # noqa: PLC0415 - an interrupt meanwhile leaves no trace

    return run(words, out=sys.stdout, err=sys.stderr, environ=os.environ, source=sys.stdin)
