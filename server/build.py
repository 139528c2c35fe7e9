"""Which build of the server this is: a digest of its own code.

Two builds of one version differ in some file, also where nobody has changed the version. It is computed once,
at the start, in some 20 ms.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGES = ("queues", "cluster", "extender", "webhooks", "controller", "certs", "server")
#: Hexadecimal digits that are shown.
DIGITS = 7


def build_of(folder: Path = Path(__file__).parent.parent) -> str:
    """Return the digest of the packages in this folder, by the names and the contents of their modules."""
    digest = hashlib.sha256()
    for module in sorted(path for package in PACKAGES for path in (folder / package).rglob("*.py")):
        content = module.read_bytes()
        digest.update(f"{module.relative_to(folder)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:DIGITS]
