from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localcluster import scheduler_config
from tests.support import yaml_texts


@pytest.fixture
def configuration() -> dict[str, Any]:
    return scheduler_config.filled_in(
        yaml_texts.load(scheduler_config.EXAMPLE.read_text()),
        kubeconfig=Path("/k"),
        server_url="https://127.0.0.1:7",
        tls={"caFile": "/ca.crt", "certFile": "/c.crt", "keyFile": "/c.key"},
    )


def test_the_extender_of_the_example_is_reached_on_this_machine(configuration: dict[str, Any]) -> None:
    extender = configuration["extenders"][0]
    assert extender["urlPrefix"] == "https://127.0.0.1:7/extender"
    assert extender["tlsConfig"] == {"caFile": "/ca.crt", "certFile": "/c.crt", "keyFile": "/c.key"}


def test_the_other_fields_of_the_example_are_kept(configuration: dict[str, Any]) -> None:
    example = yaml_texts.load(scheduler_config.EXAMPLE.read_text())["extenders"][0]
    replaced = {"urlPrefix", "tlsConfig", "enableHTTPS"}
    kept = {key: value for key, value in configuration["extenders"][0].items() if key not in replaced}
    assert kept == {key: value for key, value in example.items() if key not in replaced}


def test_the_client_is_not_throttled(configuration: dict[str, Any]) -> None:
    assert configuration["clientConnection"] == {"kubeconfig": "/k", "qps": 5000, "burst": 5000}


def test_extenders_can_be_removed(configuration: dict[str, Any]) -> None:
    scheduler_config.without_extenders(configuration)
    assert configuration["extenders"] == []


def test_the_preempt_verb_can_be_removed(configuration: dict[str, Any]) -> None:
    scheduler_config.without_preempt(configuration)
    assert all("preemptVerb" not in extender for extender in configuration["extenders"])


def test_the_share_of_scored_nodes_can_be_set(configuration: dict[str, Any]) -> None:
    scheduler_config.scoring(5)(configuration)
    assert configuration["percentageOfNodesToScore"] == 5
