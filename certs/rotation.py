"""How the authority is replaced without a failed call: the steps, as a function of values.

| word      | meaning                                                                                     |
|-----------|---------------------------------------------------------------------------------------------|
| current   | the authority that issues the serving certificates of all replicas                          |
| next      | the authority that will: published, so that callers get to trust it; it issues nothing yet  |
| former    | certificates of authorities that issue no more and are still trusted; their keys are deleted |
| bundle    | current, next and former: what callers are to trust                                         |
| callers   | kube-apiserver, which reads `caBundle`; schedulers, which read a copy once, when they start  |

    steady --publish--> published --switch--> switched --drop--> steady

All of it is in one Secret. Each step is one write of the Secret, by any replica; `caBundle`, the ConfigMap
that schedulers copy from, and the serving certificates follow from the Secret, over and over, in every
replica.

| step    | when                                                                                          |
|---------|-----------------------------------------------------------------------------------------------|
| publish | asked for (`start`), or `REPLACE_BEFORE` before the end of current; every live replica knows  |
|         | rotation                                                                                      |
| switch  | this replica has seen the bundle in every webhook and in the ConfigMap for `GRACE`; and the   |
|         | schedulers had `wait` to copy it, or an admin confirms that they have it (`switch`)           |
| drop    | all certificates that former issued have ended; or asked for (`drop`), and every live replica |
|         | says on its Lease that it serves by another one                                               |

Invariants
1. A replica serves only certificates that current has issued, when it read the Secret, and the bundle of
   every caller has it: next becomes current after its publication, and former stays.
2. A step is written on condition of the Secret's resource version: of two replicas that decide at the same
   time one writes, and the other one decides anew.
3. A replica reads the webhook configurations before the Secret, and writes `caBundle` on condition of what it
   read. So a late replica never writes a bundle over that of a later Secret.
4. Dates are by the API server's clock, which all replicas share. Certificates hold from a day before.
5. An unknown condition counts as false: a replica of an older version reports nothing, so no step is taken.

| what goes wrong                            | what follows                                              |
|--------------------------------------------|-----------------------------------------------------------|
| the replica that acts dies after any write | the others read the Secret and go on; `GRACE` begins anew |
| two replicas take the same step            | the second write is refused: one new authority, one       |
|                                            | switch                                                    |
| a replica lags, or is paused               | it serves by former, which is trusted, and takes nothing  |
|                                            | back (3)                                                  |
| a replica cannot read the Secret           | the same, and its log and `sluice_failures` say it;       |
|                                            | `drop` waits for it                                       |
| a clock of a replica is an hour off        | nothing: its dates are the API server's                   |
| ... more than a day off                    | it issues and writes nothing, and says so: either clock   |
|                                            | may be wrong                                              |
| the API server's clock was ahead           | a date in the future is taken for today's                 |
| current has expired                        | replaced at once: no caller trusts it now. Schedulers     |
|                                            | need a new copy                                           |
| the Secret is gone                         | a replica that had read it writes it again; else there is |
|                                            | a new authority, beside those that the webhooks trust     |
| the Secret holds an authority that was     | refused before anything is written; `adopt` takes it over |
| never published                            |                                                           |
| a key in it does not fit                   | refused before anything is written; what is served stays  |
| next was put there by hand                 | published from now on: the way to bring in an authority   |
|                                            | of your own                                               |
| the webhooks were applied anew             | they get the bundle again, and `GRACE` begins anew        |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from certs.authority import (
    AUTHORITY_VALIDITY,
    LEAF_VALIDITY,
    SKEW,
    Authority,
    AuthorityForeign,
    expires,
    fingerprint,
    split,
)

#: Annotation of the Secret that asks for a step.
REQUEST_ANNOTATION = "sluice.dev/ca-rotation"
START, SWITCH, DROP, ADOPT = "start", "switch", "drop", "adopt"
REQUESTS = (START, SWITCH, DROP, ADOPT)

REPLACE_BEFORE = AUTHORITY_VALIDITY / 5
#: For the API servers' watches of the webhook configurations, which take milliseconds.
GRACE = timedelta(seconds=60)
#: From issuing the last certificate to its end, with a day for a replica that was late.
LAST_CERTIFICATE = LEAF_VALIDITY + SKEW


@dataclass(frozen=True)
class AuthorityState:
    """What the Secret says. `published`, `switched`: when next was published, when former issued no more."""

    current: Authority
    next: Authority | None = None
    former: tuple[bytes, ...] = ()
    published: datetime | None = None
    switched: datetime | None = None
    request: str = ""

    @property
    def bundle(self) -> bytes:
        """All that callers are to trust, in PEM; the current one first, each once."""
        certificates = [
            self.current.certificate,
            *([self.next.certificate] if self.next else []),
            *self.former,
        ]
        return b"".join(dict.fromkeys(pem for each in certificates for pem in split(each)))


@dataclass(frozen=True)
class RotationEvidence:
    """What a replica has seen.

    `published`: whether it has seen the whole bundle for the grace, in every webhook and in the ConfigMap.
    `issuers`: by live replica, itself included, which authority issued what it serves (`fingerprint`); None
    for one that does not say; empty if that is not known at all.
    """

    published: bool = False
    issuers: Mapping[str, str | None] = field(default_factory=dict)

    def unknown(self) -> list[str]:
        return sorted(name for name, issuer in self.issuers.items() if issuer is None)

    def serving_by(self, certificates: Iterable[bytes]) -> list[str]:
        prints = {fingerprint(each) for each in certificates}
        return sorted(name for name, issuer in self.issuers.items() if issuer in prints)


@dataclass(frozen=True)
class RotationStep:
    """`state`: what is to be written, or what is there. `done`: what happens. `waits`: for what the next step
    waits.
    """

    state: AuthorityState
    done: str = ""
    waits: str = ""


def decide(
    state: AuthorityState,
    *,
    now: datetime,
    evidence: RotationEvidence,
    wait: timedelta,
    create: Callable[[], Authority],
) -> RotationStep:
    """The next step, if any. `wait`: how long schedulers have for their copy. `create`: a new authority."""
    step = replace_expired(state, now=now, create=create) or _forget_ended(state, now=now) or _answer(state)
    if step is None and state.request == DROP:
        step = _drop(state, evidence)
    if step is None and state.next is None and (state.request == START or is_due(state, now=now)):
        step = _publish(state, now=now, evidence=evidence, create=create)
    if step is None and state.next is not None:
        step = _switch(state, state.next, now=now, evidence=evidence, wait=wait)
    return step or RotationStep(state)


def is_due(state: AuthorityState, *, now: datetime) -> bool:
    """Whether current is so near its end that the next one is published."""
    return now >= expires(state.current.certificate) - REPLACE_BEFORE


def needs_evidence(state: AuthorityState, *, now: datetime) -> bool:
    """Whether the next step depends on what other replicas say."""
    return bool(state.request) or state.next is not None or is_due(state, now=now)


def replace_expired(
    state: AuthorityState, *, now: datetime, create: Callable[[], Authority]
) -> RotationStep | None:
    """Replace a current authority that has expired, at once: no caller trusts it any more."""
    if now < expires(state.current.certificate):
        return None
    name = fingerprint(state.current.certificate)
    following = state.next if state.next and now < expires(state.next.certificate) else create()
    return RotationStep(
        AuthorityState(following),
        done=f"authority {name} has expired and is replaced by {fingerprint(following.certificate)} at once;"
        " schedulers need the new bundle, and are not answered until they have it",
    )


def known(state: AuthorityState, *, trusted: Iterable[bytes], now: datetime, where: str) -> RotationStep:
    """The state, if callers can have heard of its current authority. `trusted`: what the webhooks trust.

    Raises `AuthorityForeign` if they trust another one alone, unless annotation `adopt` asks for it.
    """
    theirs = {fingerprint(each): each for each in trusted if now < expires(each)}
    others = {fingerprint(each) for each in state.former}
    if state.next is not None:
        others.add(fingerprint(state.next.certificate))  # alone in theirs where current has expired
    name = fingerprint(state.current.certificate)
    if not theirs or name in theirs or theirs.keys() <= others:
        return RotationStep(state)
    if state.request == ADOPT:
        kept = tuple(dict.fromkeys([*theirs.values(), *state.former]))
        return RotationStep(
            replace(state, former=kept, switched=now, request=""),
            done=f"authority {name} is taken over; {', '.join(theirs)} stays trusted",
        )
    raise AuthorityForeign(
        f"{where} holds authority {name}, which was never published; the webhooks trust {', '.join(theirs)}."
        f" Nothing is written. Restore the Secret; or, to change over at once, set its annotation"
        f" {REQUEST_ANNOTATION}={ADOPT}: schedulers need its certificate first"
    )


def status(state: AuthorityState, *, wait: timedelta, waits: str = "") -> str:
    """One line for people: the state of the replacement, and its next step."""
    name = fingerprint(state.current.certificate)
    text = f"authority {name}, until {_day(expires(state.current.certificate))}"
    if state.next is not None:
        following = fingerprint(state.next.certificate)
        since = state.published
        date = f"on {_day(since + wait)}" if since else f"{wait.days} days after its publication"
        text += (
            f"; next {following}, used {date} or once {REQUEST_ANNOTATION}={SWITCH} says that all schedulers"
            " have this bundle"
        )
    if state.former:
        names = ", ".join(map(fingerprint, state.former))
        until = f" until {_day(state.switched + LAST_CERTIFICATE)}" if state.switched else ""
        text += f"; {names} stays trusted{until}, or until {REQUEST_ANNOTATION}={DROP}"
    return f"{text}; {waits}" if waits else text


def _forget_ended(state: AuthorityState, *, now: datetime) -> RotationStep | None:
    """Former authorities whose last certificate has ended, or which have expired themselves."""
    if not state.former:
        return None
    if state.switched is None or state.switched > now:
        return RotationStep(replace(state, switched=now))
    left = tuple(each for each in state.former if now < expires(each))
    if now >= state.switched + LAST_CERTIFICATE:
        left = ()
    if left == state.former:
        return None
    names = ", ".join(fingerprint(each) for each in state.former if each not in left)
    return RotationStep(
        replace(state, former=left, switched=state.switched if left else None),
        done=f"authority {names} is trusted no more: the last certificate that it issued has ended",
    )


def _answer(state: AuthorityState) -> RotationStep | None:
    """Requests for a step that is not due."""
    name, request = REQUEST_ANNOTATION, state.request
    if request and request not in REQUESTS:
        return RotationStep(
            state, waits=f"annotation {name} is {request!r}; expected one of {', '.join(REQUESTS)}"
        )
    idle = {
        START: "a replacement is under way already" if state.next else "",
        SWITCH: "" if state.next else "there is no next authority",
        DROP: "" if state.former else "there is no former authority",
        ADOPT: "the authority is known",
    }.get(request, "")
    return (
        RotationStep(replace(state, request=""), done=f"{name}={request} asks for nothing: {idle}")
        if idle
        else None
    )


def _drop(state: AuthorityState, evidence: RotationEvidence) -> RotationStep | None:
    late = evidence.serving_by(state.former)
    if not evidence.issuers or evidence.unknown() or late:
        return RotationStep(state, waits=_waits(evidence, late, "serves by it still"))
    names = ", ".join(map(fingerprint, state.former))
    return RotationStep(
        replace(state, former=(), switched=None, request=""),
        done=f"authority {names} is trusted no more, as asked for; copy the bundle to the schedulers",
    )


def _publish(
    state: AuthorityState, *, now: datetime, evidence: RotationEvidence, create: Callable[[], Authority]
) -> RotationStep:
    if not evidence.issuers or evidence.unknown():
        return RotationStep(state, waits=_waits(evidence, [], ""))
    following = create()
    return RotationStep(
        replace(state, next=following, published=now, request=""),
        done=f"authority {fingerprint(following.certificate)} is published and will replace"
        f" {fingerprint(state.current.certificate)}; copy the bundle to the schedulers",
    )


def _switch(
    state: AuthorityState, following: Authority, *, now: datetime, evidence: RotationEvidence, wait: timedelta
) -> RotationStep:
    if state.published is None or state.published > now:
        return RotationStep(
            replace(state, published=now),
            done=f"authority {fingerprint(following.certificate)} is published;"
            " copy the bundle to the schedulers",
        )
    if state.request != SWITCH and now < state.published + wait:
        return RotationStep(state)
    if not evidence.published:
        return RotationStep(
            state, waits="waits until all webhooks and the ConfigMap have had the bundle for a while"
        )
    if not evidence.issuers or evidence.unknown():
        return RotationStep(state, waits=_waits(evidence, [], ""))
    former = (state.current.certificate, *state.former)
    return RotationStep(
        AuthorityState(following, former=tuple(dict.fromkeys(former)), switched=now),
        done=f"authority {fingerprint(following.certificate)} issues from now on;"
        f" {fingerprint(state.current.certificate)} stays trusted",
    )


def _waits(evidence: RotationEvidence, late: list[str], what: str) -> str:
    if not evidence.issuers:
        return "waits until the Leases of the replicas can be read"
    if unknown := evidence.unknown():
        return f"waits for replica {', '.join(unknown)}, which does not say by which authority it serves"
    return f"waits for replica {', '.join(late)}, which {what}"


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d")
