"""A configuration of our own kube-scheduler that cannot do what it is for is refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from server.main import main
from server.own_scheduler import file_problems, problems
from tests.support.cases import each_case

ENTRY = {
    "urlPrefix": "https://127.0.0.1:8443/extender",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "nodeCacheCapable": True,
    "ignorable": False,
}


def configuration(*, entry: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "ours"}],
        "leaderElection": {"resourceName": "ours", "resourceNamespace": "here"},
        "extenders": [{**ENTRY, **(entry or {})}],
        **more,
    }


def wrong_with(given: Any) -> list[str]:
    return list(problems(given, name="ours", others=["default-scheduler"]))


@pytest.mark.parametrize(
    "given",
    [
        configuration(),
        configuration(leaderElection={"leaderElect": False}),
        configuration(profiles=[{"schedulerName": "ours"}, {"schedulerName": "volcano"}]),
        configuration(extenders=[ENTRY, {"urlPrefix": "https://a", "prioritizeVerb": "p"}]),
    ],
)
def test_what_does_its_work_is_taken(given: Any) -> None:
    assert wrong_with(given) == []


@each_case(
    ("given", "words"),
    [
        (configuration(profiles=[{"schedulerName": "other"}]), "no profile with schedulerName ours"),
        (configuration(profiles=[]), "no profile with schedulerName ours"),
        (
            configuration(profiles=[{"schedulerName": "ours"}, {"schedulerName": "default-scheduler"}]),
            "its profile default-scheduler is that of another scheduler",
        ),
        (configuration(profiles=[{"schedulerName": "ours"}, {}]), "its profile default-scheduler"),
        (configuration(extenders=[]), "no extender with filterVerb"),
        (configuration(extenders="none"), "no extender with filterVerb"),
        (configuration(entry={"filterVerb": ""}), "no extender with filterVerb"),
        (configuration(entry={"preemptVerb": ""}), "no preemptVerb"),
        (configuration(entry={"managedResources": [{"name": "sluice.dev/member"}]}), "managedResources"),
        (configuration(entry={"nodeCacheCapable": False}), "nodeCacheCapable"),
        (configuration(entry={"ignorable": True}), "ignorable"),
        (configuration(leaderElection={}), "the Lease of the cluster's own scheduler"),
        (configuration(leaderElection=None), "the Lease of the cluster's own scheduler"),
    ],
)
def test_what_does_not_is_named(given: Any, words: str) -> None:
    assert any(words in each for each in wrong_with(given)), wrong_with(given)


@pytest.mark.parametrize("content", ["kind: Pod", "[]", "a: b: c", ""])
def test_a_file_that_is_no_such_configuration_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(content)
    assert str(path) in str(file_problems(path, name="ours", others=[], certificates=False))


def test_the_server_does_not_start_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends before it reads or writes anything of a cluster."""
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump(configuration(entry={"ignorable": True})))
    arguments = ["serve", "--mode=scheduler", "--scheduler-name=ours", f"--scheduler-config={path}"]
    assert main(arguments) == 2
    assert "scheduler_config: its extender" in capsys.readouterr().err


def test_where_callers_show_certificates_it_has_one_to_show() -> None:
    def wrong(entry: dict[str, Any]) -> list[str]:
        given = configuration(entry=entry)
        return list(problems(given, name="ours", others=[], certificates=True))

    [problem] = wrong({"tlsConfig": {"insecure": True}})
    assert "client_ca" in problem
    assert wrong({"tlsConfig": {"certFile": "/a.crt", "keyFile": "/a.key"}}) == []
    assert wrong({"tlsConfig": {"certData": "x", "keyData": "y"}}) == []
