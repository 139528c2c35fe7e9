"""Rows that are not measured again: what they decided is decided. Values only.

Their last result stays on the page. By row: what it settled. The code that
measured it is in the history, up to the last change of its result.
"""

from __future__ import annotations

from collections.abc import Mapping

SETTLED: Mapping[str, str] = {
    "api-writes": (
        "the server's own HTTP client is kept ([decision](../docs/contributing/decisions/api-client.md)); "
        "`make bench ROW=requests` shows what it sends"
    ),
    "http2": (
        "h2 with our bounds around it is kept ([decision](../docs/contributing/decisions/worker.md)); "
        "`make bench ROW=filter` and `ROW=creations` measure the server as callers see it"
    ),
    "scoring-memory": (
        "nodes and assigned pods are kept as they are; `make bench ROW=prioritize` has the same 100,000 pods"
    ),
    "policy-change": "a change is effective well within its second, also with three replicas",
}
