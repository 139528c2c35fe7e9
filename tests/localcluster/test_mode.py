"""`MODE=...` and `NODES=...` of `make up`."""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster import __main__ as command
from localcluster.components import current_mode
from localcluster.layout import Layout
from queues.mode import Mode


def test_a_mode_that_there_is_not_is_refused_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "gates")
    assert command.main(["up"], env={"LOCAL": str(tmp_path / "a")}) == 1
    assert "MODE is 'gates'; it may be extender, scheduler or gate" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_number_of_nodes_that_is_none_is_refused_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["up"], env={"LOCAL": str(tmp_path / "a"), "NODES": "many"})
    assert ended.value.code == 2
    assert "--nodes: invalid int value: 'many'" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_a_cluster_that_says_nothing_is_in_the_default_mode(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    assert current_mode(layout) is Mode.EXTENDER
    layout.config.mkdir()
    layout.mode.write_text(Mode.GATE)
    assert current_mode(layout) is Mode.GATE
