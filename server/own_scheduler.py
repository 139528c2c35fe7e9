"""Checks the configuration of our own kube-scheduler at the start (mode `scheduler`, setting
`scheduler_config`), before anything is served or written.

Each problem would show late, or on pods of no queue: members that wait forever, a stop that no scheduler asks
about, or a second scheduler for the cluster's own pods.

| what the configuration must have                   | else                                                |
|----------------------------------------------------|-----------------------------------------------------|
| a profile of `scheduler_name`                      | members wait forever: no scheduler takes them       |
| no profile of a name in `schedulers`               | two schedulers place the same pods                  |
| an extender entry with filterVerb and preemptVerb  | it does not ask about stops, or stopped pods evict  |
| in it no managedResources                          | members request no marker: it is called for no pod  |
| nodeCacheCapable                                   | whole nodes are sent, and each call is refused      |
| not ignorable                                      | members pass a stop while no replica answers        |
| certFile or certData, where `client_ca` is set     | each call is answered 401, and members wait         |
| a Lease of its own for its leader election         | it never leads, and members wait forever            |

Source: k8s.io/kube-scheduler/config/v1 (its defaults: a profile `default-scheduler`; leader election by Lease
`kube-scheduler` in `kube-system`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

KIND = "KubeSchedulerConfiguration"
DEFAULT_PROFILE = "default-scheduler"
DEFAULT_LEASE = ("kube-system", "kube-scheduler")

SchedulerConfiguration = Mapping[str, Any]


def file_problems(path: Path, *, name: str, others: Collection[str], certificates: bool) -> list[str]:
    """What is wrong with the configuration in this file.

    `others`: setting `schedulers`. `certificates`: whether the server asks its callers for certificates.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as exc:
        return [f"{path} cannot be read: {exc}"]
    if not isinstance(content, dict) or content.get("kind") != KIND:
        return [f"{path} is no {KIND}"]
    return list(problems(content, name=name, others=others, certificates=certificates))


def problems(
    configuration: SchedulerConfiguration, *, name: str, others: Collection[str], certificates: bool = False
) -> Iterator[str]:
    """Each problem of it, with its remedy."""
    profiles = [_text(each, "schedulerName") or DEFAULT_PROFILE for each in _maps(configuration, "profiles")]
    profiles = profiles or [DEFAULT_PROFILE]
    if name not in profiles:
        names = ", ".join(profiles)
        yield f"it has no profile with schedulerName {name} (setting scheduler_name), only {names}"
    for shared in [each for each in profiles if each in others]:
        yield f"its profile {shared} is that of another scheduler (setting schedulers); remove that profile"
    yield from _extender_problems(_maps(configuration, "extenders"), certificates=certificates)
    if election_lease(configuration) == DEFAULT_LEASE:
        yield (
            "its leaderElection is by the Lease of the cluster's own scheduler (kube-system/kube-scheduler); "
            "name another one in resourceName and resourceNamespace"
        )


def election_lease(configuration: SchedulerConfiguration) -> tuple[str, str] | None:
    """Namespace and name of the Lease by which its replicas elect one; None if they elect none."""
    election = configuration.get("leaderElection")
    election = election if isinstance(election, dict) else {}
    if not election.get("leaderElect", True):
        return None
    return (
        _text(election, "resourceNamespace") or DEFAULT_LEASE[0],
        _text(election, "resourceName") or DEFAULT_LEASE[1],
    )


def _extender_problems(extenders: list[SchedulerConfiguration], *, certificates: bool) -> Iterator[str]:
    filtering = [each for each in extenders if each.get("filterVerb")]
    if not filtering:
        yield "it has no extender with filterVerb: it would not ask about stops"
    for each in filtering:
        where = f"its extender {each.get('urlPrefix')}"
        if not each.get("preemptVerb"):
            yield f"{where} has no preemptVerb: pods of stopped queues could evict others"
        if each.get("managedResources"):
            yield f"{where} has managedResources, which members of this mode do not request; remove them"
        if each.get("nodeCacheCapable") is not True:
            yield f"{where} has not nodeCacheCapable: true"
        if certificates and not _shows_certificate(each):
            yield (
                f"{where} has no certFile and keyFile in its tlsConfig, and the server asks its callers for "
                "certificates (setting client_ca): mount the scheduler's and name it there"
            )
        if each.get("ignorable"):
            yield f"{where} has ignorable: true: pods of stopped queues are bound while no server answers"


def _shows_certificate(extender: SchedulerConfiguration) -> bool:
    tls = extender.get("tlsConfig")
    return isinstance(tls, dict) and bool(tls.get("certFile") or tls.get("certData"))


def _maps(configuration: SchedulerConfiguration, key: str) -> list[SchedulerConfiguration]:
    values = configuration.get(key)
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _text(values: SchedulerConfiguration, key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
