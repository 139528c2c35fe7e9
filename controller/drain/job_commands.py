"""Commands for Volcano's job controller: how a `batch.volcano.sh` Job is aborted and resumed.

Volcano deletes a Command when it takes it, and acts later: it hands the request to a queue in memory, tries
it 15 times at most, and forgets it where its process ends (processNextCommand and processNextReq in its
pkg/controllers/job). A Command that somebody else has deleted it drops. So a Command
that is not there any more was taken, and only the Job shows what came of it:

==================  ======================================  ===============================================
the Job shows       its AbortJob                            what a queue that schedules again does
==================  ======================================  ===============================================
Aborting, Aborted   any                                     ResumeJob is sent, again every
                                                            `SUSPEND_SECONDS`; the mark stays
another phase       was withdrawn: it never has an effect   the mark goes
another phase       taken; then it was aborted, and         the mark goes, with event GivenBack
                    ResumeJob was sent
another phase       taken, the outcome unknown              the mark stays, and the Job is read again;
                                                            after `TAKEN_SECONDS` the mark goes
==================  ======================================  ===============================================

The mark is annotation `sluice.dev/suspended`. Without it nobody would resume a Job that is aborted late.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Protocol

from cluster.api.client import Client
from cluster.exceptions import Conflict, NotFound
from queues.workload_kinds import WorkloadKind

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
ABORT, RESUME = "AbortJob", "ResumeJob"
_REASONS = {ABORT: "QueueDrained", RESUME: "QueueResumed"}
#: From when on a Command that was taken has no effect any more. Volcano's back-off begins with 5 ms and
#: doubles: 15 tries (`--max-requeue-num`) take 164 s, and each of them some seconds of a slow API server.
TAKEN_SECONDS = 300.0


class JobResumeStep(Enum):
    """What is done for a suspended workload whose queue schedules again.

    - `LEAVE`: nothing. It is not ours any more.
    - `SEND`: a Command that resumes it.
    - `WAIT`: nothing yet. It may be aborted later.
    - `GIVE_BACK`: the mark goes, and with it the suspension.
    - `UNMARK`: the mark goes. It was never suspended.
    """

    LEAVE = "leave"
    SEND = "send"
    WAIT = "wait"
    GIVE_BACK = "give back"
    UNMARK = "unmark"


def resume_step(*, is_aborted: bool, is_withdrawn: bool, is_sent: bool, waited: float) -> JobResumeStep:
    """The table above. `is_sent`: ResumeJob was. `waited`: seconds since the queue schedules again."""
    if is_aborted:
        return JobResumeStep.SEND
    if is_sent:
        return JobResumeStep.GIVE_BACK
    return JobResumeStep.UNMARK if is_withdrawn or waited >= TAKEN_SECONDS else JobResumeStep.WAIT


class CommandTarget(Protocol):
    """The Job that a Command is for."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


def create_command(client: Client, job: CommandTarget, kind: WorkloadKind, action: str) -> None:
    """Create the Command, unless it is there: one of each action for a Job."""
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": _name(job, action), "namespace": job.namespace},
        "action": action,
        "target": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": job.name,
            "uid": job.uid,
            "controller": True,
        },
        "reason": _REASONS[action],
    }
    try:
        client.create(COMMANDS.format(namespace=job.namespace), body)
    except Conflict:
        return  # sent before


def withdraw(client: Client, job: CommandTarget, action: str) -> bool:
    """Delete the Command, which then has no effect. False: there is none; if it was sent, it was taken."""
    try:
        client.delete(f"{COMMANDS.format(namespace=job.namespace)}/{_name(job, action)}")
    except NotFound:
        return False
    return True


def _name(job: CommandTarget, action: str) -> str:
    digest = hashlib.blake2s(f"{job.uid}/{action}".encode(), digest_size=8)
    return f"sluice-{action.lower()}-{digest.hexdigest()}"
