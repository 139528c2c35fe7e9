"""What goes into the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.site import BrokenLink, files_of_the_site


def repository(root: Path, readme: str) -> Path:
    (root / "docs").mkdir()
    (root / "docs" / "page.md").write_text("[back](../README.md#top) [other](https://example.com/x.md)")
    (root / "notes.md").write_text("[data](data.yaml)")
    (root / "data.yaml").write_text("")
    (root / "unlinked.md").write_text("")
    (root / "README.md").write_text(readme)
    return root


def test_what_pages_link_to_is_in_it_page_after_page(tmp_path: Path) -> None:
    files = files_of_the_site(repository(tmp_path, "[notes](notes.md#a) [above](#b)"))
    assert {file.name for file in files} == {"README.md", "page.md", "notes.md", "data.yaml"}


@pytest.mark.parametrize("link", ["gone.md", "docs", "docs/gone.md#a"])
def test_a_link_to_what_is_no_file_ends_it_and_is_named(tmp_path: Path, link: str) -> None:
    with pytest.raises(BrokenLink, match=rf"README.md: {link} is not a file"):
        files_of_the_site(repository(tmp_path, f"[broken]({link})"))
