"""Whether no replica of Sluice answered, as kube-scheduler and the API server write it on what waits for it.

Their messages are read here and nowhere else. What counts is what we named ourselves: the path of the
extender's URL, and the names of our webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: How Go writes the error of a call that got no answer; an answer that is an error reads differently.
_EXTENDER = re.compile(r'Post "https?://[^"]*/extender/[a-z]+": ')
_WEBHOOK = re.compile(r'failed calling webhook "[a-z.]+\.sluice\.dev"')


def outage_text(messages: Iterable[str]) -> str:
    """That no replica answers, whom, and what comes of it; "" where no message says so."""
    for message in messages:
        if _EXTENDER.search(message):
            return "no replica of Sluice answers kube-scheduler, which tries again by itself"
        if _WEBHOOK.search(message):
            return (
                "no replica of Sluice answers the API server, so none of its pods can be created; "
                "its controller tries again by itself"
            )
    return ""
