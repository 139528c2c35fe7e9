"""Each picture is drawn from the text beside it, and some page shows it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.cases import each_case
from tests.support.docs.pages import DOCS
from tests.support.paths import ROOT

PICTURES = DOCS / "pictures"
TEXTS = sorted(PICTURES.glob("*.dot"))


@each_case("text", TEXTS, ids=lambda text: text.stem)
def test_a_picture_is_that_of_its_text(text: Path) -> None:
    """Where this fails: `make pictures`."""
    digest = hashlib.sha256(text.read_bytes()).hexdigest()
    head = text.with_suffix(".svg").read_text().partition("\n")[0]
    assert f"drawn from {text.name}, sha256 {digest}," in head


def test_each_picture_has_a_text_and_is_shown() -> None:
    pictures = {picture.name for picture in PICTURES.glob("*.svg")}
    assert pictures == {f"{text.stem}.svg" for text in TEXTS}
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    assert [picture for picture in pictures if f"pictures/{picture})" not in pages] == []
