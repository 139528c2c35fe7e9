"""What a release says of itself is true, and the same each time."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from release import attestations
from release.__main__ import uv_runner
from release.slim import UNUSED, normalized
from tests.support.paths import ROOT

TIME = 1_700_000_000


def exported() -> str:
    export = ("export", "--quiet", "--frozen", "--no-dev", "--format", "cyclonedx1.5")
    return uv_runner(ROOT, time=TIME)(*export)


def test_the_sbom_names_each_package_with_its_hashes_and_is_the_same_each_time() -> None:
    """uv writes the time and a random number into it."""
    text = attestations.sbom(exported(), time=TIME)
    assert text == attestations.sbom(exported(), time=TIME)
    content = json.loads(text)
    assert (content["bomFormat"], content["metadata"]["timestamp"]) == ("CycloneDX", "2023-11-14T22:13:20Z")
    packages = {each["name"]: each for each in content["components"]}
    assert {"flask", "gunicorn", "kubernetes", "cryptography", "msgspec"} <= packages.keys()
    assert "pytest" not in packages
    assert (packages["flask"]["scope"], packages["aiohttp"]["scope"]) == ("required", "optional")
    assert {normalized(name) for name in packages} >= UNUSED
    assert all(reference["hashes"] for reference in packages["flask"]["externalReferences"])


def test_the_provenance_has_the_digest_of_each_file_and_of_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "a.whl"
    file.write_bytes(b"content")
    statement = json.loads(
        attestations.provenance(
            ROOT, [file], version="1.2.3", revision="f" * 40, time=TIME, builder="https://example.com/w"
        )
    )
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    digest = hashlib.sha256(b"content").hexdigest()
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": digest}}]
    definition = statement["predicate"]["buildDefinition"]
    commit, *locks = definition["resolvedDependencies"]
    assert commit["digest"] == {"gitCommit": "f" * 40}
    assert {"uri": "file:uv.lock", "digest": {"sha256": attestations.sha256(ROOT / "uv.lock")}} in locks
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "https://example.com/w"


def test_the_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(attestations.checksums([tmp_path / "a", tmp_path / "b"]))
    checked = subprocess.run(
        ["/usr/bin/sha256sum", "--check", "SHA256SUMS"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert checked.stdout == "a: OK\nb: OK\n"
