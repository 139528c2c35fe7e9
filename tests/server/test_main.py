"""`sluice serve`: exit codes, and what is said on standard error before one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from server.main import main

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting and no kubeconfig of whoever runs the tests; what is written stays here."""
    for name in list(os.environ):
        if name.startswith("SLUICE_") or name in {"KUBECONFIG", "KUBERNETES_SERVICE_HOST"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("logging.root.handlers", [])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help_ends_with_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "usage: sluice serve" in told(capsys)


@pytest.mark.parametrize("arguments", [[], ["server"], ["--bind", "x"], ["Serve"]])
def test_without_a_command_the_exit_code_is_2_with_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "usage: sluice serve" in told(capsys)


def test_a_setting_that_cannot_be_ends_with_2_and_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--bind", "nowhere"]) == 2
    err = told(capsys)
    assert err.startswith("sluice: bind: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "{", "a: b", "clusters: 5", "\x00", KUBECONFIG.replace("context: x", "context: y")]
)
def test_an_invalid_kubeconfig_ends_with_1_and_is_named(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    assert main(["serve", "--kubeconfig", str(path), "--certs-dir", str(tmp_path / "certs")]) == 1
    assert str(path) in told(capsys)


def test_no_cluster_at_all_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--certs-dir", str(tmp_path / "certs")]) == 1
    assert "no usable cluster configuration" in told(capsys)


def test_a_kubeconfig_whose_certificate_is_damaged_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.crt").write_text("nonsense")
    user = f"{{client-certificate: {tmp_path}/bad.crt, client-key: {tmp_path}/bad.crt}}"
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.replace("user: {}", f"user: {user}"))
    assert main(["serve", "--kubeconfig", str(path), "--certs-dir", str(tmp_path / "certs")]) == 1
    assert told(capsys).startswith("sluice: ")


def test_an_authority_that_is_damaged_ends_with_1_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certs = tmp_path / "certs"
    certs.mkdir()
    (certs / "ca.crt").write_text("nonsense")
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    assert main(["serve", "--kubeconfig", str(path), "--certs-dir", str(certs)]) == 1
    assert "remove both files" in told(capsys)


def test_a_folder_for_certificates_that_is_a_file_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["serve", "--certs-dir", str(tmp_path / "file")]) == 1
    assert "file" in told(capsys)


def test_settings_that_would_contradict_each_other_in_another_mode_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("")
    names = ["--scheduler-name=a", "--schedulers=a", "--kubeconfig", str(path)]
    assert main(["serve", *names, "--certs-dir", str(tmp_path / "certs")]) == 1
    assert "scheduler_name: 'a' is named in schedulers too" in told(capsys)
    assert main(["serve", "--mode=scheduler", *names]) == 2
