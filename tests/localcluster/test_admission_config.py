from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localcluster import admission_config
from localcluster.layout import Layout
from localcluster.ports import Ports
from tests.support import yaml_texts

PORTS = Ports(etcd=1, etcd_peer=2, apiserver=3, controller_manager=4, scheduler=5, kwok=6, server=7, health=8)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.at(tmp_path)
    for folder in (layout.config, layout.kubeconfigs):
        folder.mkdir()
    admission_config.configure(layout, PORTS)
    return layout


def read(path: Path) -> Any:
    return yaml_texts.load(path.read_text())


def test_both_kinds_of_webhooks_are_shown_the_certificate(layout: Layout) -> None:
    plugins = read(layout.admission_config)["plugins"]
    assert {each["name"] for each in plugins} == {"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}
    files = {each["configuration"]["kubeConfigFile"] for each in plugins}
    assert files == {str(layout.webhook_kubeconfig)}


def test_only_our_webhooks_are_shown_it_by_service_and_by_url(layout: Layout) -> None:
    users = read(layout.webhook_kubeconfig)["users"]
    assert [each["name"] for each in users] == ["sluice.sluice-system.svc", "localhost:7", "127.0.0.1:7"]
    certificate, key = layout.caller_certificate("kube-apiserver")
    shown = {"client-certificate": str(certificate), "client-key": str(key)}
    assert all(each["user"] == shown for each in users)
