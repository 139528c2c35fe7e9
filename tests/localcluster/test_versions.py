"""Which Kubernetes versions there are, how one is chosen, and what an older one is built from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localcluster import build, versions
from localcluster.exceptions import VersionRefused
from server import preflight
from tests import kubernetes_versions
from tests.kubernetes_versions import CANNOT_BE_BUILT
from tests.support.cases import each_case
from tests.support.paths import ROOT

UPSTREAM = """\
module k8s.io/kubernetes

go 1.22.0

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.0.0
	k8s.io/kube-openapi v0.0.0-20240228011516-70dd3763d340
	k8s.io/utils v0.0.0-20230726121419-3b25d923346b // indirect
)

require k8s.io/mount-utils v0.0.0 // indirect

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/mount-utils => ./staging/src/k8s.io/mount-utils
)
"""
BUILT_FROM = """\
module sluice.dev/localcluster/kubernetes

go 1.22.0

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.30.14
	k8s.io/kube-openapi v0.0.0-20240228011516-70dd3763d340
	k8s.io/utils v0.0.0-20230726121419-3b25d923346b // indirect
)

require k8s.io/mount-utils v0.30.14 // indirect

require k8s.io/kubernetes v1.30.14

replace (
	k8s.io/api => k8s.io/api v0.30.14
	k8s.io/mount-utils => k8s.io/mount-utils v0.30.14
)
"""


def test_the_newest_is_the_one_in_go_mod() -> None:
    required = f"\n\tk8s.io/kubernetes {versions.RELEASES[versions.NEWEST]} // indirect\n"
    assert required in (ROOT / "localcluster" / "go.mod").read_text()
    assert (next(iter(versions.RELEASES)), list(versions.RELEASES)[-1]) == (versions.OLDEST, versions.NEWEST)


def test_the_page_has_the_row_of_each_that_make_versions_wrote() -> None:
    """In the words of `tests.kubernetes_versions`. Those between the oldest and the newest may be not run."""
    page = (ROOT / "docs" / "operating" / "versions.md").read_text()
    rows = re.findall(r"^\| (1\.\d+\.\d+) \| (.+) \| ((?:\d{4}-\d\d-\d\d)?) ?\|$", page, re.MULTILINE)
    assert [f"v{release}" for release, _, _ in rows] == list(versions.RELEASES.values())
    for minor, (_, result, date) in zip(versions.RELEASES, rows, strict=True):
        if minor in versions.UNPUBLISHED:
            assert result == CANNOT_BE_BUILT
            assert date
        elif date or minor in (versions.OLDEST, versions.NEWEST):
            counts = r"\d+ passed(, \d+ skipped \(.+\))? in \d+ min"
            assert re.fullmatch(counts, result), f"{minor}: {result}"
        else:
            assert result == "not run yet"


def test_ci_runs_the_core_on_the_oldest_beside_all_on_the_newest() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    newest = "\nrun make test\nrun make test-rest\nrun make test-long\n"
    assert f"{newest}VERSION={versions.OLDEST} run make test-core\n" in script
    workflow = (ROOT / ".github" / "workflows" / "tests.yaml").read_text()
    assert f'VERSION: "{versions.OLDEST}"' in workflow


def test_the_server_starts_on_the_oldest_and_on_none_before() -> None:
    assert "{}.{}".format(*preflight.OLDEST) == versions.OLDEST


def test_a_row_says_why_tests_were_skipped(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="5" failures="1" errors="0" skipped="2"><testcase name="a"/>'
        '<testcase name="b"><skipped message="it lacks this"/></testcase>'
        '<testcase name="c"><skipped message="it lacks this"/></testcase></testsuite></testsuites>'
    )
    assert kubernetes_versions.counted(report) == "2 passed, 1 failed, 2 skipped (it lacks this)"


def test_one_that_cannot_be_built_fails_no_run_of_all() -> None:
    row = kubernetes_versions.run_version("1.31", env={})
    assert row.is_good
    assert row.text("2026-11-23") == f"| 1.31.14 | {CANNOT_BE_BUILT} | 2026-11-23 |"


def test_only_those_that_are_built_from_digests_have_them() -> None:
    built = versions.RELEASES.keys() - versions.UNPUBLISHED - {versions.NEWEST}
    assert {file.stem for file in versions.DIGESTS.glob("*.sum")} == built


@pytest.mark.parametrize("minor", sorted(versions.RELEASES.keys() - versions.UNPUBLISHED - {versions.NEWEST}))
def test_the_digests_of_each_older_one_are_here(minor: str) -> None:
    """Of Kubernetes itself and of the modules of its repository."""
    release = versions.RELEASES[minor]
    lines = versions.digests(minor).read_text().splitlines()
    names = {
        line.split()[0]
        for line in lines
        if line.split()[1].partition("/")[0] in (release, f"v0{release[2:]}")
    }
    assert {"k8s.io/kubernetes", "k8s.io/api", "k8s.io/apiserver", "k8s.io/kubectl"} <= names


@pytest.mark.parametrize(
    ("named", "minor"), [("", versions.NEWEST), ("1.30", "1.30"), ("v1.31", "1.31"), ("1.30.14", "1.30")]
)
def test_version_names_a_minor_version_or_its_release(named: str, minor: str) -> None:
    assert versions.chosen({"VERSION": named}) == minor


@each_case("named", ["1.29", "1.30.2", "30", "newest", "1.30.14.1"])
def test_any_other_version_is_refused_with_those_that_there_are(named: str) -> None:
    with pytest.raises(VersionRefused, match=r"there is 1\.30, .*1\.30\.14"):
        versions.chosen({"VERSION": named})


def test_a_cluster_keeps_its_version_until_it_is_gone(tmp_path: Path) -> None:
    recorded = tmp_path / "version"
    assert versions.of_cluster(recorded, {"VERSION": "1.30"}, exists=False) == "1.30"
    recorded.write_text("1.30\n")
    assert versions.of_cluster(recorded, {}, exists=True) == "1.30"
    with pytest.raises(
        VersionRefused, match=rf"is of 1\.30; end it first with: make down LOCAL={re.escape(str(tmp_path))}"
    ):
        versions.of_cluster(recorded, {"VERSION": "1.31"}, exists=True)
    assert versions.of_cluster(recorded, {"VERSION": "1.31"}, exists=False) == "1.31"


@pytest.mark.parametrize(
    ("version", "path"), [("1.30\n", "/healthz"), ("1.31\n", "/readyz"), ("", "/readyz")]
)
def test_a_scheduler_that_has_no_readyz_is_asked_for_its_health(
    tmp_path: Path, version: str, path: str
) -> None:
    recorded = tmp_path / "version"
    if version:
        recorded.write_text(version)
    assert versions.scheduler_readiness_path(recorded) == path


def test_an_older_one_is_built_from_what_kubernetes_itself_requires() -> None:
    assert versions.requirements(UPSTREAM, release="v1.30.14") == BUILT_FROM


def test_each_version_has_a_folder_of_its_own(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    folders = {build.cache({**env, "VERSION": minor}) for minor in versions.RELEASES}
    assert len(folders) == len(versions.RELEASES)
    assert build.cache(env) in folders
