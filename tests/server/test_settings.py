"""The settings: flags over the environment over a file over defaults; a refusal names the setting."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import authority
from server.settings import (
    Settings,
    SettingsError,
    read,
)
from tests.support.cases import each_case


@pytest.fixture
def kubeconfigs(tmp_path: Path) -> list[str]:
    """Four files that are there."""
    paths = [tmp_path / f"kubeconfig-{number}" for number in range(4)]
    for path in paths:
        path.write_text("")
    return [str(path) for path in paths]


#: For each setting three values that differ from its default, as text and as they are read.
VALUES: dict[str, list[tuple[str, Any]]] = {
    "bind": [("0.0.0.0:1", "0.0.0.0:1"), ("[::1]:2", "[::1]:2"), ("host:65535", "host:65535")],
    "health_bind": [("0.0.0.0:1", "0.0.0.0:1"), ("[::1]:2", "[::1]:2"), ("host:65535", "host:65535")],
    "scheduler_callers": [("a,b", ("a", "b")), ("system:c", ("system:c",)), ("", ())],
    "api_server_callers": [("a,b", ("a", "b")), ("system:c", ("system:c",)), ("", ())],
    "certs_dir": [("/a", "/a"), ("b", "b"), ("c d", "c d")],
    "policies_namespace": [("a", "a"), ("b-c", "b-c"), ("x" * 63, "x" * 63)],
    "policies_name": [("a", "a"), ("b.c", "b.c"), ("x" * 253, "x" * 253)],
    "ca_secret": [("a", "a"), ("b.c", "b.c"), ("x" * 253, "x" * 253)],
    "ca_wait_days": [("0", 0), ("180", 180), ("7", 7)],
    "tls_dir": [("/a", "/a"), ("b", "b"), ("c d", "c d")],
    "hosts": [("a,10.0.0.1", ("a", "10.0.0.1")), ("fd00::1", ("fd00::1",)), ("::1", ("::1",))],
    "api_servers": [
        ("https://a:1,https://b:1", ("https://a:1", "https://b:1")),
        ("https://c", ("https://c",)),
        ("https://[::1]:2", ("https://[::1]:2",)),
    ],
    "namespace": [("a", "a"), ("b-1", "b-1"), ("x" * 63, "x" * 63)],
    "service": [("a", "a"), ("b-1", "b-1"), ("c", "c")],
    "webhook_url": [
        ("https://a:1", "https://a:1"),
        ("https://b/", "https://b/"),
        ("https://[::1]:2", "https://[::1]:2"),
    ],
    "mode": [("gate", "gate"), ("scheduler", "scheduler"), ("gate", "gate")],
    "scheduler_name": [("a", "a"), ("volcano", "volcano"), ("b.c", "b.c")],
    "schedulers": [("a,b", ("a", "b")), (" c , d ,", ("c", "d")), ("", ())],
    "owned_schedulers": [("a,b", ("a", "b")), ("c", ("c",)), ("", ())],
    "controller_users": [("a*,b", ("a*", "b")), ("system:c", ("system:c",)), ("", ())],
    "scheduler_users": [("a,b", ("a", "b")), ("system:c", ("system:c",)), ("", ())],
    "notices_dir": [("/a", "/a"), ("b", "b"), ("c d", "c d")],
    "kueue_label": [("true", True), ("TRUE", True), ("True", True)],
    "binding_namespaces": [("true", True), ("TRUE", True), ("True", True)],
    "managed_namespaces": [
        ("a=b", "a=b"),
        ('{"matchLabels": {"a": "b"}}', '{"matchLabels": {"a": "b"}}'),
        ("c=d,e=f", "c=d,e=f"),
    ],
    "depth_limit": [("1", 1), ("100", 100), ("7", 7)],
    "writers": [("1", 1), ("64", 64), ("7", 7)],
    "request_timeout": [("5", 5), ("3600", 3600), ("25", 25)],
    "drain_rate": [("1", 1), ("10000", 10000), ("7", 7)],
    "drain_in_flight": [("1", 1), ("100000", 100000), ("7", 7)],
    "drain_grace_limit": [("1", 1), ("86400", 86400), ("7", 7)],
    "window_soon": [("0", 0), ("1440", 1440), ("7", 7)],
    "queue_metrics": [("true", True), ("TRUE", True), ("True", True)],
    "log_level": [("debug", "debug"), ("warning", "warning"), ("error", "error")],
}


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def file(tmp_path: Path, content: object) -> str:
    path = tmp_path / "sluice.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_every_setting_is_tried_here() -> None:
    files = {"kubeconfig", "scheduler_config", "client_ca"}
    assert VALUES.keys() | files == set(Settings.__struct_fields__)


def test_without_anything_the_defaults_hold() -> None:
    assert read([], env={}) == Settings()


@pytest.mark.parametrize("name", VALUES)
def test_a_flag_beats_the_environment_that_beats_the_file_that_beats_the_default(
    name: str, tmp_path: Path
) -> None:
    (in_flag, flagged), (in_env, from_env), (_, from_file) = VALUES[name]
    config = file(tmp_path, {name: list(from_file) if isinstance(from_file, tuple) else from_file})
    env = {f"SLUICE_{name.upper()}": in_env}
    assert getattr(read(["--config", config, flag(name), in_flag], env=env), name) == flagged
    assert getattr(read(["--config", config], env=env), name) == from_env
    assert getattr(read(["--config", config], env={}), name) == from_file
    assert from_file != getattr(Settings(), name)


@pytest.mark.parametrize("name", ["kubeconfig", "scheduler_config"])
def test_so_does_the_name_of_a_file(name: str, kubeconfigs: list[str], tmp_path: Path) -> None:
    config = file(tmp_path, {name: kubeconfigs[2]})
    env = {f"SLUICE_{name.upper()}": kubeconfigs[1]}
    assert getattr(read(["--config", config, flag(name), kubeconfigs[0]], env=env), name) == kubeconfigs[0]
    assert getattr(read(["--config", config], env=env), name) == kubeconfigs[1]
    assert getattr(read(["--config", config], env={}), name) == kubeconfigs[2]


def test_the_files_of_client_ca_are_read_from_every_place(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.crt") for number in range(3)]
    for path in paths:
        Path(path).write_bytes(authority.create(name="callers", now=datetime.now(UTC)).certificate)
    config = file(tmp_path, {"client_ca": paths[2:]})
    env = {"SLUICE_CLIENT_CA": paths[1]}
    both = read(["--config", config, "--client-ca", ",".join(paths[:2])], env=env)
    assert both.client_ca == tuple(paths[:2])
    assert read(["--config", config], env=env).client_ca == (paths[1],)
    assert read(["--config", config], env={}).client_ca == (paths[2],)
    with pytest.raises(SettingsError, match="api_server_callers"):
        read(["--client-ca", paths[0], "--api-server-callers", ""], env={})


def test_settings_of_several_places_meet(tmp_path: Path) -> None:
    config = file(tmp_path, {"writers": 2, "namespace": "a"})
    read_ = read(["--writers", "3"], env={"SLUICE_CONFIG": config, "SLUICE_SERVICE": "s", "OTHER": "x"})
    assert (read_.writers, read_.namespace, read_.service) == (3, "a", "s")


def test_the_file_may_spell_settings_as_the_flags_do(tmp_path: Path) -> None:
    assert read(["--config", file(tmp_path, {"log-level": "debug"})], env={}).log_level == "debug"


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert read(["--config", file(tmp_path, "")], env={}) == Settings()


def test_a_list_in_the_file_is_a_list(tmp_path: Path) -> None:
    assert read(["--config", file(tmp_path, {"schedulers": ["a", "b"]})], env={}).schedulers == ("a", "b")


def test_a_selector_in_the_file_may_be_a_mapping(tmp_path: Path) -> None:
    config = file(tmp_path, {"managed_namespaces": {"matchLabels": {"a": "b"}}})
    selector = read(["--config", config], env={}).membership_settings.managed_namespaces
    assert selector is not None
    assert selector.text == "a=b"


# Refusals


BAD: dict[str, list[str]] = {
    "bind": ["", "host", ":1", "host:", "host:0", "host:65536", "host:http", "host:-1", "host:\u00b2"],
    "health_bind": ["", "host", ":1", "host:0", "host:65536", "127.0.0.1:8443"],
    "client_ca": ["/nowhere/ca.crt", "/", __file__],
    "certs_dir": [""],
    "kubeconfig": ["/nowhere/kubeconfig", "/"],
    "ca_secret": ["A", "a_b", "../a", "x" * 254],
    "ca_wait_days": ["-1", "181", "1.5", "month"],
    "hosts": ["a_b", "a b", "-a", "https://a", "b\u00fccher", "a/b", "10.0.0.1:80", "x" * 254],
    "namespace": ["", "A", "a_b", "a.b", "-a", "a-", "x" * 64, "a\n"],
    "service": ["", "A", "a/b", "x" * 64],
    "webhook_url": [
        "http://a",
        "a:1",
        "https://",
        "https://a/path",
        "https://[",
        "https://a:99999",
        "https://a:x",
        "//a",
        "https://b\u00fccher",
    ],
    "managed_namespaces": ["a", "a=b,a=c", "{", "{}", "sluice.dev/guard=x"],
    "kueue_label": ["", "yes", "1", "truee"],
    "binding_namespaces": ["", "yes", "1", "truee"],
    "depth_limit": ["", "0", "101", "-1", "1.5", "x", "\u00b2", "9" * 5000],
    "writers": ["", "0", "65", "-1", "four", "\u00b2", "9" * 5000],
    "request_timeout": ["", "4", "3601", "-60", "1m", "60s"],
    "drain_rate": ["", "0", "10001", "-1", "1.5", "fast"],
    "drain_in_flight": ["", "0", "100001", "-1", "1.5", "all"],
    "window_soon": ["", "1441", "-1", "1.5", "15m"],
    "queue_metrics": ["", "yes", "1", "truee"],
    "drain_grace_limit": ["", "0", "86401", "-1", "1.5", "5m"],
    "log_level": ["", "INFO", "trace", "warn"],
    "mode": ["", "Gate", "extenders"],
    "scheduler_name": ["", "A", "a_b", "x" * 254],
    "scheduler_config": ["/nowhere/scheduler.yaml", "/"],
}


@each_case("name", BAD)
@each_case("by", ["flag", "environment"])
def test_a_refusal_names_the_setting(name: str, by: str) -> None:
    for value in BAD[name]:
        arguments = [f"{flag(name)}={value}"] if by == "flag" else []
        env = {} if by == "flag" else {f"SLUICE_{name.upper()}": value}
        with pytest.raises(SettingsError, match=name):
            read(arguments, env=env)
            pytest.fail(f"{value!r} is taken")


@each_case(
    ("arguments", "error"),
    [
        (["--mode=x"], "mode: 'x' is not valid; expected extender, scheduler or gate"),
        (["--hosts=a_b,c d"], "hosts: 'a_b', 'c d' is not valid; expected DNS names and addresses"),
        (
            ["--drain-rate=-5"],
            "drain_rate: '-5' (flag) is not valid; "
            "expected a whole number of evictions a second from 1 to 10000",
        ),
        (["--writers=65"], "writers: 65 is not valid; expected a whole number from 1 to 64"),
        (
            ["--client-ca=/callers/ca.crt"],
            "client_ca: '/callers/ca.crt' is not valid; expected files that are there and hold certificates "
            "in PEM; with manifests/client-certificates the file is key ca.crt of ConfigMap sluice-callers",
        ),
    ],
)
def test_a_refusal_says_what_is_valid_as_people_write_it(arguments: list[str], error: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(arguments, env={})
    assert str(refused.value) == error


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"bind": None}, "bind"),
        ({"bind": 8443}, "bind"),
        ({"writers": "4"}, "writers"),
        ({"writers": True}, "writers"),
        ({"writers": 0}, "writers"),
        ({"kueue_label": "true"}, "kueue_label"),
        ({"schedulers": "a"}, "schedulers"),
        ({"schedulers": [1]}, "schedulers"),
        ({"owned_schedulers": {"a": 1}}, "owned_schedulers"),
        ({"log_level": ["info"]}, "log_level"),
        ({"depht_limit": 3}, "depht_limit"),
        ({1: 2}, "1"),
    ],
    ids=str,
)
def test_a_refusal_of_the_file_names_the_setting(content: object, names: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=names):
        read(["--config", file(tmp_path, content)], env={})


@pytest.mark.parametrize("content", ["[1, 2]", "word", "a: b: c", "{", "a: &x\n\tb", "\x00"], ids=repr)
def test_a_file_that_is_no_map_of_settings_is_refused_by_its_name(content: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"config: .*sluice\.yaml"):
        read(["--config", file(tmp_path, content)], env={})


def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "sluice.yaml"
    path.write_bytes(b"bind: \xff\xfe\n")
    with pytest.raises(SettingsError, match=r"config: .*sluice\.yaml"):
        read(["--config", str(path)], env={})


@pytest.mark.parametrize("where", ["flag", "environment"])
def test_a_file_that_is_not_there_is_refused_by_its_name(where: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    flags, env = (["--config", missing], {}) if where == "flag" else ([], {"SLUICE_CONFIG": missing})
    with pytest.raises(SettingsError, match=r"config: .*missing.yaml cannot be read"):
        read(flags, env=env)


def test_a_value_in_the_file_that_a_flag_overrides_is_still_read(tmp_path: Path) -> None:
    """A file with a mistake is refused even where the mistake would not matter today."""
    with pytest.raises(SettingsError, match="unheard_of"):
        read(["--config", file(tmp_path, {"unheard_of": 1}), "--writers", "2"], env={})


@pytest.mark.parametrize("arguments", [["--unheard-of", "1"], ["extra"], ["--bind"]])
def test_unknown_flags_end_with_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(arguments, env={})
    assert ended.value.code == 2
    assert "usage: sluice serve" in capsys.readouterr().err


def test_a_given_certificate_and_an_authority_of_ours_contradict_each_other() -> None:
    with pytest.raises(
        SettingsError, match="tls_dir: '/tls' is not valid; expected nothing beside ca_secret"
    ):
        read(["--tls-dir", "/tls", "--ca-secret", "sluice-ca"], env={})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "sluice.sluice-system.svc"),
        (["--service=a", "--namespace=b"], "a.b.svc"),
        (["--webhook-url=https://host:1"], "host"),
    ],
)
def test_a_given_certificate_has_to_be_for_the_name_that_webhooks_are_called_by(
    arguments: list[str], name: str
) -> None:
    made = read(["--tls-dir=/tls", *arguments], env={}).certificate_settings
    assert (made.name, made.served) == (name, (Path("/tls/tls.crt"), Path("/tls/tls.key")))


def test_help_explains_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--help"], env={})
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(flag(name) in told for name in Settings.__struct_fields__)


# What follows from the settings


def test_without_an_authority_of_clients_everybody_may_call() -> None:
    assert Settings().client_certificates is None


def test_the_certificate_serves_at_every_name_that_we_are_reached_by() -> None:
    settings = Settings(
        bind="10.1.2.3:8443", namespace="ns", service="svc", webhook_url="https://hook:1", hosts=("more",)
    )
    assert set(settings.served_hosts) == {
        "more",
        "svc.ns.svc",
        "svc.ns.svc.cluster.local",
        "10.1.2.3",
        "hook",
        "localhost",
        "127.0.0.1",
    }


@pytest.mark.parametrize("bind", ["0.0.0.0:8443", "[::]:8443"])
def test_any_address_is_no_name(bind: str) -> None:
    assert not {bind.rpartition(":")[0], "::"} & set(Settings(bind=bind).served_hosts)


def test_an_ipv6_address_is_served_as_an_address() -> None:
    served = Settings(bind="[::1]:8443").served_hosts
    assert "::1" in served
    assert "[::1]" not in served


def test_in_a_pod_the_services_address_is_served_beside_the_hosts_that_are_set(tmp_path: Path) -> None:
    """kubelet sets `SLUICE_SERVICE_HOST` for a Service named sluice."""
    env = {"SLUICE_SERVICE_HOST": "10.96.0.7"}
    assert "10.96.0.7" in read([], env=env).served_hosts
    both = read(["--config", file(tmp_path, {"hosts": ["more"]})], env=env).served_hosts
    assert {"10.96.0.7", "more"} <= set(both)


def test_our_own_user_is_that_of_our_namespace() -> None:
    assert Settings(namespace="ns").admission_settings.own_user == "system:serviceaccount:ns:sluice"


SAME_NAME = ["--scheduler-name=a", "--schedulers=a,b"]


@pytest.mark.parametrize("mode", ["extender", "scheduler", "gate"])
def test_our_own_scheduler_has_a_name_that_no_other_has(mode: str, tmp_path: Path) -> None:
    """In any mode while it runs: its pods count as asked about, and may wait after a change of mode."""
    config = tmp_path / "scheduler.yaml"
    config.touch()
    with pytest.raises(SettingsError, match=r"scheduler_name: 'a' is named in .* take it out of schedulers"):
        read([f"--mode={mode}", f"--scheduler-config={config}", *SAME_NAME], env={})


def test_in_mode_scheduler_it_has_such_a_name_without_a_configuration_too() -> None:
    with pytest.raises(SettingsError, match="scheduler_name: 'a' is named in schedulers too"):
        read(["--mode=scheduler", *SAME_NAME], env={})


@pytest.mark.parametrize("mode", ["extender", "gate"])
def test_where_it_does_not_run_a_name_that_another_has_is_a_warning(mode: str) -> None:
    """Such settings worked before our own scheduler had a name."""
    settings = read([f"--mode={mode}", *SAME_NAME], env={})
    (warning,) = settings.warnings
    assert warning.startswith("scheduler_name: 'a' is named in schedulers too")
    assert warning.endswith("before you set mode scheduler")
    assert settings.membership_settings.calling_schedulers == set()
    assert settings.admission_settings.marked_schedulers == {"a", "b"}


def test_settings_that_fit_each_other_warn_of_nothing() -> None:
    assert read([], env={}).warnings == read(["--mode=scheduler"], env={}).warnings == []


def test_in_mode_scheduler_its_name_makes_a_member_and_its_user_binds_as_a_scheduler() -> None:
    settings = read(["--mode=scheduler", "--scheduler-name=ours", "--namespace=here"], env={})
    assert settings.membership_settings.owned_schedulers == {"volcano", "ours"}
    assert "system:serviceaccount:here:sluice" in settings.admission_settings.scheduler_users


@pytest.mark.parametrize("mode", ["extender", "scheduler", "gate"])
def test_pods_of_our_own_scheduler_are_known_to_be_asked_about_in_every_mode(
    mode: str, tmp_path: Path
) -> None:
    """It goes on running, with its configuration, for a while after the mode was changed."""
    config = tmp_path / "scheduler.yaml"
    config.touch()
    settings = read([f"--mode={mode}", "--scheduler-name=ours", f"--scheduler-config={config}"], env={})
    assert settings.membership_settings.calling_schedulers == {"ours"}


@pytest.mark.parametrize("mode", ["extender", "gate"])
def test_where_our_own_scheduler_does_not_run_its_name_is_as_any_other(mode: str) -> None:
    """Else whoever names it in a pod would have each stop wait for an answer that nobody asks for."""
    assert read([f"--mode={mode}"], env={}).membership_settings.calling_schedulers == set()
