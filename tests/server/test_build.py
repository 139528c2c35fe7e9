"""Two builds of one version have two names."""

from __future__ import annotations

from pathlib import Path

from server.build import DIGITS, build_of


def test_a_build_is_named_by_the_code_alone(tmp_path: Path) -> None:
    """Not by where it lies, nor by what is no module."""
    names = []
    for folder, text in (("one", "a"), ("two", "a"), ("three", "b")):
        package = tmp_path / folder / "server"
        package.mkdir(parents=True)
        (package / "app.py").write_text(text)
        (package / "notes.txt").write_text(folder)
        names.append(build_of(tmp_path / folder))
    assert names[0] == names[1] != names[2]
    assert {len(name) for name in names} == {DIGITS}


def test_this_code_has_a_name() -> None:
    assert build_of() == build_of() != build_of(Path("nowhere"))
