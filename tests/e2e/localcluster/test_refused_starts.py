"""A server that could not work in this cluster does not start: it names what is wrong and writes nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import authority
from localcluster.apiserver import try_kubectl
from localcluster.cluster import LocalCluster
from localcluster.components import BY_NAME, NAMESPACE
from tests.support.e2e.api_requests import Api
from tests.support.e2e.clocks import wrong_clock
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

#: The one that the server may read; the servers of these tests keep their authority in a folder.
SECRET = "sluice-ca"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def start(
    cluster: LocalCluster,
    folder: Path,
    *,
    kubeconfig: Path | None = None,
    prefix: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """The server once it has ended; its certificates would be in `folder`."""
    instead = {"--certs-dir": folder, **({"--kubeconfig": kubeconfig} if kubeconfig else {})}
    command = [
        f"{flag}={instead[flag]}" if (flag := word.split("=")[0]) in instead else word
        for word in BY_NAME["server"].command(cluster.layout, cluster.ports)
    ]
    return subprocess.run(
        [*prefix, *command, *flags], capture_output=True, text=True, check=False, timeout=120
    )


def read_leases(cluster: LocalCluster) -> set[str]:
    with Api(cluster) as api:
        return {each["metadata"]["name"] for each in api.get(LEASES).must().body["items"]}


@pytest.mark.parametrize("wrong", ["+1h", "-1h"])
def test_a_clock_that_is_an_hour_off_is_named(cluster: LocalCluster, tmp_path: Path, wrong: str) -> None:
    before = read_leases(cluster)
    done = start(cluster, tmp_path / "certs", prefix=wrong_clock(wrong))
    assert done.returncode == 1
    assert re.search(r"the clock of this node is (59|60|61) minutes|set the clock of this node", done.stderr)
    assert not (tmp_path / "certs").exists()
    assert read_leases(cluster) <= before


def test_missing_rights_are_named_with_the_way_out(cluster: LocalCluster, tmp_path: Path) -> None:
    """All of them, those in one namespace and of one object too."""
    done = start(cluster, tmp_path / "certs", kubeconfig=cluster.user("nobody"))
    assert done.returncode == 1
    for right in (
        "patch queues.scheduling.volcano.sh everywhere",
        "create pods/binding everywhere",
        f"create leases.coordination.k8s.io in namespace {NAMESPACE}",
        "watch customresourcedefinitions.apiextensions.k8s.io queues.scheduling.volcano.sh everywhere",
        "kubectl apply --server-side -k manifests/rbac",
    ):
        assert right in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "certs").exists()


def test_values_that_contradict_each_other_are_named(cluster: LocalCluster, tmp_path: Path) -> None:
    flags = ["--mode=scheduler", "--schedulers=default-scheduler,sluice"]
    done = start(cluster, tmp_path / "certs", flags=flags)
    assert done.returncode == 2
    assert "'sluice' is named in schedulers too" in done.stderr
    assert not (tmp_path / "certs").exists()


def test_a_secret_that_holds_another_authority_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    """Nothing is written; that the Secret stays as it is shows tests/e2e/certs/test_authority_secret.py."""
    other = authority.create(name="other", now=datetime.now(UTC))
    for suffix, content in (("crt", other.certificate), ("key", other.key)):
        (tmp_path / f"tls.{suffix}").write_bytes(content)
    files = [f"--cert={tmp_path / 'tls.crt'}", f"--key={tmp_path / 'tls.key'}"]
    cluster.kubectl("create", "secret", "tls", SECRET, f"--namespace={NAMESPACE}", *files)
    try:
        before = read_leases(cluster)
        done = start(cluster, tmp_path / "certs", flags=[f"--ca-secret={SECRET}"])
        assert done.returncode == 1
        assert f"{NAMESPACE}/{SECRET}" in done.stderr
        assert "adopt" in done.stderr
        assert read_leases(cluster) <= before
    finally:
        cluster.kubectl("delete", "secret", SECRET, f"--namespace={NAMESPACE}")


def test_the_page_s_check_of_a_cluster_ip_names_the_range(cluster: LocalCluster) -> None:
    """As docs/operating/install.md has it, with an address outside of the range and with one inside."""
    page = (ROOT / "docs" / "operating" / "install.md").read_text()
    (command,) = re.findall(r"`kubectl (create service clusterip [^`]+)`", page)
    outside = try_kubectl(cluster.layout, *command.split())
    assert outside.returncode
    assert "The range of valid IPs is 10.0.0.0/24" in outside.stderr
    inside = try_kubectl(cluster.layout, *command.replace("10.96.0.42", "10.0.0.42").split())
    assert inside.returncode == 0, inside.stderr
