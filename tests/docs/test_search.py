"""People find the page by their own words: it is among the first three results of the site's search."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.cases import each_case
from tests.support.docs.site_search import built_site, found
from tests.support.skipping import built_or_skipped

TASKS, OPERATING, CONCEPTS = "docs/tasks", "docs/operating", "docs/concepts"
#: By words, the page that answers.
WORDS = {
    # who stops queues
    "stop everything": f"{TASKS}/stop-everything.md",
    "maintenance": f"{TASKS}/stop-everything.md",
    "stop all queues": f"{TASKS}/stop-everything.md",
    "freeze": f"{TASKS}/change-a-queue-safely.md",
    "change freeze": f"{TASKS}/change-a-queue-safely.md",
    "safe to edit": f"{TASKS}/change-a-queue-safely.md",
    "pause": f"{TASKS}/stop-a-branch.md",
    "team lead": f"{TASKS}/for-team-leads.md",
    "resourceNames": f"{TASKS}/for-team-leads.md",
    "calendar": f"{TASKS}/stop-by-the-calendar.md",
    "every sunday": f"{TASKS}/stop-by-the-calendar.md",
    "holidays": f"{TASKS}/stop-by-the-calendar.md",
    "change windows": f"{TASKS}/see-and-move-windows.md",
    "drain": f"{CONCEPTS}/draining.md",
    "drain blocked": f"{TASKS}/unblock-a-drain.md",
    "PDB": f"{TASKS}/unblock-a-drain.md",
    "PodDisruptionBudget": f"{TASKS}/empty-a-queue.md",
    "close a queue": f"{TASKS}/close-a-queue.md",
    "delete a queue": f"{TASKS}/close-a-queue.md",
    "limit a team": f"{TASKS}/limit-a-team.md",
    "GPU": f"{CONCEPTS}/quotas.md",
    "limit GPUs": f"{TASKS}/limit-a-team.md",
    "quota": f"{CONCEPTS}/quotas.md",
    "borrow": f"{TASKS}/lend-what-is-idle.md",
    "reclaim": f"{TASKS}/lend-what-is-idle.md",
    "audit": "docs/reference/plugin.md",
    # who has work in them
    "argo": f"{TASKS}/other-tools.md",
    "argo workflows": f"{TASKS}/other-tools.md",
    "kubeflow": f"{TASKS}/other-tools.md",
    "pytorchjob": f"{TASKS}/other-tools.md",
    "ray": f"{TASKS}/other-tools.md",
    "airflow": f"{TASKS}/other-tools.md",
    "spark": f"{TASKS}/other-tools.md",
    "evicted": f"{TASKS}/my-pod-was-evicted.md",
    "preempted": f"{TASKS}/my-pod-was-evicted.md",
    "pod killed": f"{TASKS}/my-pod-was-evicted.md",
    "cordon": f"{TASKS}/my-pod-was-evicted.md",
    "jupyter": f"{TASKS}/my-pod-was-evicted.md",
    "pending": f"{TASKS}/find-out-why-work-waits.md",
    "pod is pending": f"{TASKS}/find-out-why-work-waits.md",
    "SchedulingGated": f"{TASKS}/why-a-pod-waits-for-room.md",
    "why does my pod wait": f"{TASKS}/find-out-why-work-waits.md",
    "gang scheduling": f"{CONCEPTS}/gangs.md",
    "mpi": f"{TASKS}/start-a-gang-whole.md",
    "gang": f"{CONCEPTS}/gangs.md",
    "move a workload": f"{TASKS}/put-work-into-a-queue.md",
    # who runs the server
    "install": f"{OPERATING}/install.md",
    "helm": f"{OPERATING}/helm.md",
    "upgrade": f"{OPERATING}/upgrade.md",
    "roll back": f"{OPERATING}/upgrade.md",
    "rollback": f"{OPERATING}/upgrade.md",
    "downtime": f"{OPERATING}/upgrade.md",
    "uninstall": f"{OPERATING}/uninstall.md",
    "latency": f"{OPERATING}/faster-or-slower.md",
    "performance": f"{OPERATING}/faster-or-slower.md",
    "slow": f"{OPERATING}/faster-or-slower.md",
    "gitops": f"{OPERATING}/gitops.md",
    "argo cd": f"{OPERATING}/gitops.md",
    "flux": f"{OPERATING}/gitops.md",
    "namespace deleted": f"{OPERATING}/namespace-gone.md",
    "disaster": f"{OPERATING}/namespace-gone.md",
    "backup of secret": f"{OPERATING}/namespace-gone.md",
    "outage": f"{OPERATING}/outages.md",
    "server down": f"{OPERATING}/outages.md",
    "high availability": f"{OPERATING}/replicas.md",
    "stuck": f"{OPERATING}/troubleshooting.md",
    "permissions": f"{OPERATING}/rights.md",
    "rbac": f"{OPERATING}/rights.md",
    "who may stop": f"{OPERATING}/rights.md",
    "bypass a stop": f"{OPERATING}/keep-users-apart.md",
    "multi-tenant": f"{OPERATING}/keep-users-apart.md",
    "EKS": f"{OPERATING}/install.md",
    "autoscaler": f"{OPERATING}/node-autoscalers.md",
    "karpenter": f"{OPERATING}/node-autoscalers.md",
    "prometheus": f"{OPERATING}/alerts.md",
    "slack": f"{OPERATING}/notices.md",
    "certificate expired": f"{OPERATING}/replace-the-authority.md",
    "move from kueue": f"{OPERATING}/move-from-kueue.md",
    "migrate from volcano": f"{OPERATING}/move-from-volcano.md",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    site = built_or_skipped("the site", partial(built_site, tmp_path_factory.mktemp("site")))
    return found(site, list(WORDS))


@each_case("words", list(WORDS))
def test_the_page_is_among_the_first_three_results(words: str, results: dict[str, list[str]]) -> None:
    assert WORDS[words] in results[words][:3], results[words][:10]


def test_there_are_sixty_words_and_phrases() -> None:
    assert len(WORDS) >= 60
