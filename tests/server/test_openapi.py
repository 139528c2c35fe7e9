"""docs/reference/openapi.yaml against the app: random requests that fit it, and others, in process."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support import yaml_texts
from tests.support.http.asking import Server
from tests.support.http.wire_objects import queue
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "openapi.yaml"
SERVER = Server().has(queue("research"), queue("held", stopPolicy="Hold"))

document = yaml_texts.load(PAGE.read_text())
schema = schemathesis.openapi.from_dict(document)
schema.app = SERVER.app


@schema.parametrize()
@settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_every_endpoint_answers_as_its_page_says(case: Case[Any]) -> None:
    case.call_and_validate(
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ]
    )


def test_the_page_has_every_endpoint_and_method_and_no_other() -> None:
    served = {
        (rule.rule, method)
        for rule in SERVER.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    told = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    assert told == served
