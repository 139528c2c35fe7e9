"""What a replica makes of the Secret: what it creates, restores, refuses, and leaves as it is."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from certs import authority, ca_bundle
from certs.authority import AuthorityForeign, AuthorityUnreadable, ClockWrong, fingerprint, split
from certs.rotation import AuthorityState
from certs.secret_store import AuthoritySecret
from certs.shared_authority import SharedAuthority, server_time
from cluster.exceptions import Refused
from tests.support.certs.stored_objects import CONFIGURATIONS, StoredObjects

NAMESPACE = "sluice-system"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/sluice-ca"
CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/sluice-ca"


class Replica:
    """One replica's part, with the fingerprints that it has served by."""

    def __init__(self, api: StoredObjects) -> None:
        self.clock = 0.0
        self.served: list[str] = []
        self.shared = SharedAuthority(
            api,  # type: ignore[arg-type]
            secret=AuthoritySecret(api, namespace=NAMESPACE, name="sluice-ca"),  # type: ignore[arg-type]
            wait=timedelta(days=30),
            issuers=lambda: {"only": self.served[-1] if self.served else None},
            clock=lambda: self.clock,
        )

    def update(self) -> bool:
        return self.shared.update(self.serve).again

    def serve(self, state: AuthorityState) -> None:
        self.served.append(fingerprint(state.current.certificate))

    def settle(self) -> None:
        """Rounds, until the next one changes nothing and the grace is over."""
        for _ in range(4):
            self.clock += 61
            self.update()


@pytest.fixture
def api() -> StoredObjects:
    return StoredObjects()


@pytest.fixture
def replica(api: StoredObjects) -> Replica:
    made = Replica(api)
    made.settle()
    return made


def secret(api: StoredObjects) -> dict[str, Any]:
    return api.objects[SECRET]


def certificate(api: StoredObjects, key: str = "tls.crt") -> bytes:
    return base64.b64decode(secret(api)["data"][key])


def ask(api: StoredObjects, request: str) -> None:
    api.patch(SECRET, {"metadata": {"annotations": {"sluice.dev/ca-rotation": request}}})


def put(api: StoredObjects, **data: bytes | None) -> None:
    encoded = {
        key.replace("_", "."): None if each is None else base64.b64encode(each).decode()
        for key, each in data.items()
    }
    api.patch(SECRET, {"data": encoded})


def trusted(api: StoredObjects) -> list[tuple[str, ...]]:
    """By webhook, the authorities that it trusts."""
    return [
        tuple(map(fingerprint, split(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))))
        for path in CONFIGURATIONS
        for webhook in api.objects[path]["webhooks"]
    ]


def copied(api: StoredObjects) -> tuple[str, ...]:
    """What a scheduler's host would copy."""
    return tuple(map(fingerprint, split(api.objects[CONFIG_MAP]["data"]["ca.crt"].encode())))


def test_the_first_one_creates_the_authority_and_all_get_to_trust_it(
    api: StoredObjects, replica: Replica
) -> None:
    name = fingerprint(certificate(api))
    assert set(trusted(api)) == {(name,)}
    assert copied(api) == (name,)
    assert set(replica.served) == {name}
    assert secret(api)["type"] == "kubernetes.io/tls"
    assert "tls.key" not in api.objects[CONFIG_MAP]["data"]


def test_what_is_so_is_not_written_again(api: StoredObjects, replica: Replica) -> None:
    versions = {path: each["metadata"]["resourceVersion"] for path, each in api.objects.items()}
    replica.settle()
    assert {path: each["metadata"]["resourceVersion"] for path, each in api.objects.items()} == versions


def test_a_replacement_from_its_start_to_its_end(api: StoredObjects, replica: Replica) -> None:
    old = fingerprint(certificate(api))
    ask(api, "start")
    replica.settle()
    following = fingerprint(certificate(api, "next.crt"))
    assert set(trusted(api)) == {(old, following)}
    assert copied(api) == (old, following)
    assert following in api.objects[CONFIG_MAP]["data"]["status"]
    assert replica.served[-1] == old
    ask(api, "switch")
    replica.settle()
    assert replica.served[-1] == following == fingerprint(certificate(api))
    assert set(trusted(api)) == {(following, old)}
    assert set(secret(api)["data"]) == {"tls.crt", "tls.key", "former.crt"}
    ask(api, "drop")
    replica.settle()
    assert set(trusted(api)) == {(following,)}
    assert copied(api) == (following,)
    assert set(secret(api)["data"]) == {"tls.crt", "tls.key"}
    assert secret(api)["metadata"]["annotations"] == {}


def test_the_next_one_is_used_only_after_the_grace(api: StoredObjects, replica: Replica) -> None:
    ask(api, "start")
    for _ in range(3):
        replica.update()
    ask(api, "switch")
    replica.clock += 30
    replica.update()
    assert len(set(replica.served)) == 1, "half of the grace"
    replica.clock += 31
    replica.update()
    replica.update()
    assert len(set(replica.served)) == 2


def test_the_grace_begins_anew_when_the_webhooks_are_applied_anew(
    api: StoredObjects, replica: Replica
) -> None:
    ask(api, "start")
    replica.settle()
    api.put(CONFIGURATIONS[0], {"metadata": {"name": "sluice"}, "webhooks": [{"clientConfig": {}}]})
    ask(api, "switch")
    replica.clock += 61
    replica.update()
    replica.update()
    assert len(set(replica.served)) == 1
    replica.settle()
    assert len(set(replica.served)) == 2


def test_another_authority_in_the_secret_is_refused_before_anything_is_written(
    api: StoredObjects, replica: Replica
) -> None:
    other = authority.create(name="other", now=datetime.now(UTC))
    put(api, tls_crt=other.certificate, tls_key=other.key)
    before = {path: str(each) for path, each in api.objects.items()}
    for start in (replica.update, Replica(api).shared.load):
        with pytest.raises(AuthorityForeign, match="ca-rotation=adopt"):
            start()
    assert {path: str(each) for path, each in api.objects.items()} == before
    assert fingerprint(other.certificate) not in replica.served


def test_it_is_taken_over_when_asked_for(api: StoredObjects, replica: Replica) -> None:
    old, other = fingerprint(certificate(api)), authority.create(name="other", now=datetime.now(UTC))
    put(api, tls_crt=other.certificate, tls_key=other.key)
    ask(api, "adopt")
    replica.settle()
    assert set(trusted(api)) == {(fingerprint(other.certificate), old)}
    assert replica.served[-1] == fingerprint(other.certificate)


def test_an_authority_of_ones_own_comes_in_as_the_next_one(api: StoredObjects, replica: Replica) -> None:
    other = authority.create(name="other", now=datetime.now(UTC))
    put(api, next_crt=other.certificate, next_key=other.key)
    replica.settle()
    assert len(copied(api)) == 2
    assert fingerprint(other.certificate) not in replica.served
    ask(api, "switch")
    replica.settle()
    assert replica.served[-1] == fingerprint(other.certificate)


OTHER = authority.create(name="other", now=datetime.now(UTC))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"tls_key": OTHER.key}, "the key does not fit"),
        ({"tls_key": b"nonsense"}, "cannot be read"),
        ({"tls_crt": b""}, "cannot be read"),
        ({"tls_key": None}, "tls.key cannot be read"),
        ({"next_crt": OTHER.certificate}, "next.key cannot be read"),
        (
            {
                "next_crt": OTHER.certificate,
                "next_key": authority.create(name="x", now=datetime.now(UTC)).key,
            },
            "null",
        ),
        ({"former_crt": b"-----BEGIN CERTIFICATE-----\nAAAA\n"}, "former.crt cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_before_anything_is_written(
    api: StoredObjects, replica: Replica, data: dict[str, bytes | None], said: str
) -> None:
    put(api, **data)
    before = {path: str(each) for path, each in api.objects.items()}
    for start in (replica.update, Replica(api).shared.load):
        with pytest.raises(AuthorityUnreadable, match=said) as refused:
            start()
        assert "sluice-system/sluice-ca" in str(refused.value)
        assert "kubectl" in str(refused.value)
    assert {path: str(each) for path, each in api.objects.items()} == before


def test_a_certificate_that_may_issue_none_is_no_authority(api: StoredObjects, replica: Replica) -> None:
    leaf = OTHER.serving(now=datetime.now(UTC), dns=["localhost"])
    put(api, tls_crt=leaf.certificate, tls_key=leaf.key)
    with pytest.raises(AuthorityUnreadable, match="may issue no others"):
        replica.update()


def test_a_deleted_secret_is_written_again_by_a_replica_that_had_read_it(
    api: StoredObjects, replica: Replica
) -> None:
    before = secret(api)["data"]
    del api.objects[SECRET]
    replica.update()
    assert secret(api)["data"] == before


def test_a_secret_that_is_gone_at_a_start_makes_a_new_authority_beside_the_trusted_one(
    api: StoredObjects, replica: Replica
) -> None:
    """So the API server reaches those that still serve by the other one."""
    old = fingerprint(certificate(api))
    del api.objects[SECRET]
    late = Replica(api)
    late.settle()
    assert set(trusted(api)) == {(fingerprint(certificate(api)), old)}
    assert old not in late.served


def test_an_authority_that_has_expired_is_replaced_at_the_start(api: StoredObjects) -> None:
    expired = authority.create(
        name="sluice", now=datetime.now(UTC) - timedelta(days=20), validity=timedelta(days=10)
    )
    late = Replica(api)
    late.settle()
    put(api, tls_crt=expired.certificate, tls_key=expired.key)
    for path in CONFIGURATIONS:
        api.put(path, {"metadata": {"name": "sluice"}, "webhooks": [{"clientConfig": {}}]})
    started = Replica(api)
    state = started.shared.load()
    assert fingerprint(state.current.certificate) != fingerprint(expired.certificate)
    assert fingerprint(certificate(api)) == fingerprint(state.current.certificate)


@pytest.mark.parametrize("hours", [1, -1, 23])
def test_a_clock_that_is_an_hour_off_changes_nothing(
    api: StoredObjects, replica: Replica, hours: int
) -> None:
    api.clock_skew = hours * 3600.0
    assert abs(server_time(api) - datetime.now(UTC) - timedelta(hours=hours)) < timedelta(minutes=10)  # type: ignore[arg-type]
    ask(api, "start")
    replica.settle()
    assert len(copied(api)) == 2


@pytest.mark.parametrize(("days", "side"), [(2, "behind"), (-400, "ahead of")])
def test_a_clock_that_is_days_off_keeps_everything_as_it_is(
    api: StoredObjects, replica: Replica, days: int, side: str
) -> None:
    ask(api, "start")
    before = {path: str(each) for path, each in api.objects.items()}
    api.clock_skew = days * 86_400.0
    with pytest.raises(ClockWrong, match=f"{side} the API server's"):
        replica.update()
    assert {path: str(each) for path, each in api.objects.items()} == before


def test_a_configmap_that_cannot_be_written_is_said_and_keeps_the_next_one_from_being_used(
    api: StoredObjects, replica: Replica
) -> None:
    ask(api, "start")
    replica.settle()
    api.objects[CONFIG_MAP]["data"]["ca.crt"] = ""

    def refuse(verb: str, path: str) -> None:
        if verb == "patch" and path == CONFIG_MAP:
            raise Refused(403, "Forbidden", "no right to configmaps")

    api.before = refuse
    ask(api, "switch")
    replica.settle()
    update = replica.shared.update(replica.serve)
    assert isinstance(update.error, Refused)
    assert len(set(replica.served)) == 1


def test_an_edited_configmap_is_written_again(api: StoredObjects, replica: Replica) -> None:
    before = api.objects[CONFIG_MAP]["data"]
    api.patch(CONFIG_MAP, {"data": {"ca.crt": OTHER.certificate.decode()}})
    replica.update()
    assert api.objects[CONFIG_MAP]["data"] == before


def test_without_webhooks_it_still_serves(api: StoredObjects) -> None:
    for path in CONFIGURATIONS:
        del api.objects[path]
    alone = Replica(api)
    update = alone.shared.update(alone.serve)
    assert update.error is not None
    assert alone.served


def test_a_late_replica_takes_nothing_back(api: StoredObjects, replica: Replica) -> None:
    """It read the Secret before the next one was published, and writes caBundle afterwards."""
    late = Replica(api)
    done: list[bool] = []

    def meanwhile(verb: str, path: str) -> None:
        if verb == "get" and path == SECRET and not done:
            done.append(True)
            ask(api, "start")
            replica.settle()

    api.put(CONFIGURATIONS[1], {"metadata": {"name": "sluice"}, "webhooks": [{"clientConfig": {}}]})
    api.before = meanwhile
    late.update()
    assert ca_bundle.read(api).have(stored_state(api).bundle)  # type: ignore[arg-type]


def stored_state(api: StoredObjects) -> AuthorityState:
    stored = AuthoritySecret(api, namespace=NAMESPACE, name="sluice-ca").read()  # type: ignore[arg-type]
    assert stored is not None
    return stored.state


def test_a_published_bundle_that_somebody_wrote_as_binary_data_is_written_again(
    api: StoredObjects, replica: Replica
) -> None:
    api.objects[CONFIG_MAP] |= {"data": {}, "binaryData": {"ca.crt": "AA==", "theirs": "AA=="}}
    replica.update()
    assert api.objects[CONFIG_MAP]["data"]["ca.crt"].encode() == certificate(api)
    assert list(api.objects[CONFIG_MAP]["binaryData"]) == ["theirs"]


def test_a_publication_that_is_refused_at_each_try_keeps_no_certificate_from_being_served(
    api: StoredObjects, replica: Replica
) -> None:
    """It once did, as if somebody else had written meanwhile, until what was served had expired."""
    api.objects[CONFIG_MAP] |= {"immutable": True, "data": {"ca.crt": "old"}}
    served = len(replica.served)
    update = replica.shared.update(replica.serve)
    assert isinstance(update.error, Refused)
    assert len(replica.served) == served + 1
    del api.objects[CONFIG_MAP]["immutable"]
    assert replica.shared.update(replica.serve).error is None
    assert api.objects[CONFIG_MAP]["data"]["ca.crt"].encode() == certificate(api)
