"""A real API server with our manifests and a recorder in place of our server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.conftest import started_and_ended
from tests.support import yaml_texts
from tests.support.manifests.admission_recorder import Recorder
from tests.support.manifests.bare_api import (
    QUEUES,
    REGISTRATIONS,
    SERVER,
    Api,
    binding,
    eventually,
    namespaces,
    pods,
    queue,
)
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"


@pytest.fixture(scope="package")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A control plane without our server and without webhooks."""
    yield from started_and_ended(tmp_path_factory, nodes=0, server=False)


@pytest.fixture(scope="package")
def api(bare: LocalCluster) -> Iterator[Api]:
    api = Api(bare)
    yield api
    api.close()


@pytest.fixture(scope="package")
def recorder(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """Our webhook configurations, in effect, calling a recorder.

    Namespaces: `plain`, `team` (names a queue), `guarded` (its bind guard is on).
    """
    recorder = Recorder(tmp_path_factory.mktemp("recorder"))
    try:
        _register(api, recorder)
        _make_namespaces(api)
        eventually(lambda: _hears_all(api, recorder))
        yield recorder
    finally:
        recorder.close()


def _register(api: Api, recorder: Recorder) -> None:
    for stem in ("mutating", "validating"):
        configuration = yaml_texts.load((MANIFESTS / "webhooks" / f"{stem}.yaml").read_text())
        path = f"{REGISTRATIONS}/{configuration['kind'].lower()}s/sluice"
        assert api.apply(path, recorder.pointed_here(configuration)).status < 300


def _make_namespaces(api: Api) -> None:
    named = {
        "labels": {"sluice.dev/member-namespace": "true"},
        "annotations": {"scheduling.volcano.sh/queue-name": "research"},
    }
    for name, metadata in {"plain": {}, "team": named, "guarded": {}}.items():
        made = api.create(namespaces(), {"kind": "Namespace", "metadata": {"name": name, **metadata}})
        assert made.status == 201, made.message
    guard = {"metadata": {"labels": {"sluice.dev/guard": "true"}}}
    assert api.patch(namespaces("guarded"), guard, user=SERVER).status == 200


def _hears_all(api: Api, recorder: Recorder) -> bool:
    with recorder.asked() as heard:
        api.create(QUEUES, queue("probe"), dry=True)
        api.create(f"{pods('guarded', 'nobody')}/binding", binding("nobody"), dry=True)
    return len(heard) == 3
