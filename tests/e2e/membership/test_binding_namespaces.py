"""A namespace that is bound to its queue, on a real control plane: with `edit` nobody gets around a stop."""

from __future__ import annotations

from queues.namespace_binding import binding_refusal
from tests.support.drain.draining import wait_for_running
from tests.support.e2e.objects import NAMED_BY
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, KINDS, work_body

USER = "tenant@example.com"
BINDING = "sluice.dev/binding"


def annotate(sandbox: Sandbox, **annotations: str | None) -> tuple[str, ...]:
    keys = {"queue": NAMED_BY, "binding": BINDING}
    written = {keys[key]: value for key, value in annotations.items()}
    return sandbox.api.patch(sandbox.home, {"metadata": {"annotations": written}}).must().warnings


def test_with_edit_nobody_runs_past_the_stop_of_a_bound_namespace(sandbox: Sandbox) -> None:
    """Every kind and every word. Without the binding a pod that named `default` ran."""
    sandbox.user(USER, "edit", "admin")
    sandbox.may(USER, "create", "pods")
    mine = sandbox.queue("mine")
    below = sandbox.queue("below", parent=mine)
    annotate(sandbox, queue=mine, binding="true")
    sandbox.suspend(mine)

    def refusal(queue: str) -> str:
        return binding_refusal(queue, bound_to=mine, namespace=sandbox.namespace)

    until(lambda: sandbox.pod("probe", "default", dry=True).status == 403, "the binding to be known")
    for made in KINDS:
        for on_itself in (False, True):
            body = work_body(made, "stranger", "root", on_itself=on_itself)
            sandbox.api.create(made.path(sandbox.namespace), body, user=USER).must_refuse(refusal("root"))
    sandbox.pod("stranger", "default").must_refuse(refusal("default"))
    sandbox.make_podgroup("stranger", "root").must_refuse(refusal("root"))
    sandbox.pod("own").must(201)
    sandbox.pod("below", below).must(201)
    settled(sandbox.waiting, "the pods")
    assert sandbox.bound(sandbox.read_pods()) == set()
    # Neither `edit` nor `admin` ends it.
    for value in ("false", None):
        ended = {"metadata": {"annotations": {BINDING: value}}}
        assert sandbox.api.patch(sandbox.home, ended, user=USER).status == 403


def test_what_was_there_goes_on_and_who_binds_is_told(sandbox: Sandbox) -> None:
    """The webhook is called for the annotation alone, too."""
    mine, other = sandbox.queue("mine"), sandbox.queue("other")
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", other, replicas=2)).must(201)
    ran = wait_for_running(sandbox, 2, "web-")
    annotate(sandbox, queue=mine)
    warnings = annotate(sandbox, binding="true")
    stay = f'2 pods stay in queue "{other[:20]}'
    assert any(warning.startswith(stay) for warning in warnings), warnings
    until(lambda: sandbox.pod("probe", other, dry=True).status == 403, "the binding to be known")
    sandbox.scale("web", 3, refused="replicas beyond the 2 that this Deployment has are new")
    sandbox.api.delete(f"{sandbox.pods_path}/{min(ran)}").must()
    assert wait_for_running(sandbox, 2, "web-") != ran, "its controller replaces them"
    wrong = {"metadata": {"annotations": {BINDING: "yes"}}}
    sandbox.api.patch(sandbox.home, wrong).must_refuse('"yes" is not known; use one of "true", "false"')
