"""A request that is refused before it is handled is found in the server's metrics and in its log."""

from __future__ import annotations

import http.client

from localcluster import apiserver
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

LENGTH = 3 * 1024 * 1024


def test_a_body_that_is_too_large_is_counted_and_logged(sandbox: Sandbox) -> None:
    cluster = sandbox.cluster
    pattern = r'sluice_requests_total\{code="413",path="/validate/binds"\}'
    before = sandbox.counted(pattern)
    context = apiserver.caller_context(cluster.layout)
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.ports.server, context=context, timeout=60)
    connection.putrequest("POST", "/validate/binds")
    connection.putheader("Content-Length", str(LENGTH))
    connection.endheaders()
    with connection.getresponse() as response:
        assert response.status == 413
    connection.close()
    until(lambda: sandbox.counted(pattern) == before + 1, "the request to be counted")
    line = "refused POST /validate/binds of 127.0.0.1 with 413: the body may have 2097152 bytes"
    until(lambda: line in cluster.layout.log("server").read_text(), "the line of the log")
