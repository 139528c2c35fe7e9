"""What says of a release what is in it, and where it comes from: SBOM, provenance, checksums.

- `sluice-VERSION.cdx.json`: all packages of uv.lock that the server's wheel needs, with their hashes, as
  CycloneDX. Those that the image leaves out (`release.slim`) have scope `optional`, all others `required`.
  What the base of the image has, Debian's packages and Python, is not in it.
- `provenance.json`: an in-toto statement with a SLSA provenance: the digest of each file of the release, the
  commit that it was built from, and the files of the checkout that decide what it is built with. It is not
  signed: who has a key or an identity does that, such as the workflow of the releases.
- `SHA256SUMS`: for `sha256sum --check`.

The same commit gives the same bytes: no time but the commit's is in them, and no random number.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from release.slim import UNUSED, normalized

STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"
#: Says what the parameters mean: `make release` in a checkout of the revision.
BUILD_TYPE = "https://sluice.dev/make-release/v1"
#: What decides which tools and packages a release is built with.
LOCKS = ("uv.lock", "pyproject.toml", "localcluster/go.sum")


def sbom(exported: str, *, time: int) -> str:
    """What `uv export --format cyclonedx1.5` wrote, with this time, and a serial number of its content."""
    content: dict[str, Any] = json.loads(exported)
    content["metadata"]["timestamp"] = _rfc3339(time)
    content["metadata"]["component"]["type"] = "application"
    for component in content["components"]:
        component["scope"] = "optional" if normalized(component["name"]) in UNUSED else "required"
    content.pop("serialNumber", None)
    text = json.dumps(content, sort_keys=True)
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, text)}"
    return json.dumps(content, indent=1) + "\n"


def provenance(
    root: Path, files: Iterable[Path], *, version: str, revision: str, time: int, builder: str
) -> str:
    """`builder`: the URI of who ran the build, such as the workflow's."""
    locks = [{"uri": f"file:{name}", "digest": {"sha256": sha256(root / name)}} for name in LOCKS]
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in files],
        "predicateType": PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"tag": f"v{version}", "target": "release"},
                "internalParameters": {"SOURCE_DATE_EPOCH": time},
                "resolvedDependencies": [{"uri": "git:.", "digest": {"gitCommit": revision}}, *locks],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }
    return json.dumps(statement, indent=1) + "\n"


def checksums(files: Iterable[Path]) -> str:
    return "".join(f"{sha256(file)}  {file.name}\n" for file in files)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _rfc3339(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
