"""Which files take how long: what the workers begin with, and what `make test-fast` leaves out.

Each worker of `make test` takes file after file. With the longest first, all end at about the same time;
a long one that is missing here is begun last, and then the others wait for its worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

#: Seconds, by file: all that take ten or more, and of those without the control plane, two or more.
SECONDS: Mapping[str, int] = {
    "pods/test_scheduler_mode.py": 120,
    "pods/test_helm_release.py": 130,
    "pods/test_outages.py": 100,
    "pods/test_uninterrupted_service.py": 105,
    "pods/test_image.py": 70,
    "pods/test_gate_mode.py": 65,
    "pods/test_client_certificates.py": 20,
    "e2e/release/test_chart_in_a_cluster.py": 28,
    "e2e/release/test_chart_renders_the_manifests.py": 37,
    "readers/test_drains.py": 7,
    "readers/test_reclaims.py": 6,
    "queues/quota/test_giving_back_gangs.py": 6,
    "queues/quota/test_kept_victims.py": 3,
    "queues/notices/test_plain_text.py": 2,
    "e2e/release/test_krew.py": 9,
    "release/test_plugin.py": 14,
    "e2e/policies/test_victims_by_policy.py": 67,
    "e2e/podgroups/test_vcjob.py": 24,
    "e2e/podgroups/test_makers_of_gangs.py": 60,
    "e2e/plugin/test_policies_on_a_cluster.py": 14,
    "e2e/policies/test_policies_with_several_replicas.py": 38,
    "e2e/plugin/test_access_on_a_cluster.py": 24,
    "e2e/plugin/test_server_away.py": 30,
    "e2e/hostile/test_hostile_objects.py": 50,
    "e2e/membership/test_belonging_to_a_queue.py": 6,
    "e2e/commands/test_late_command_watch.py": 10,
    "e2e/acknowledgement/test_members_without_a_label.py": 115,
    "e2e/acknowledgement/test_not_asked.py": 36,
    "e2e/membership/test_workloads_without_a_label.py": 56,
    "e2e/hostile/test_writes_that_pass_by_admission.py": 26,
    "e2e/stops/test_recreating_parked_pods.py": 20,
    "e2e/drain/test_draining_faults.py": 170,
    "e2e/server/test_callers.py": 11,
    "e2e/server/test_monitoring.py": 15,
    "e2e/modes/test_scheduler_mode.py": 45,
    "e2e/modes/test_gate_mode.py": 40,
    "e2e/modes/test_changing_modes.py": 20,
    "e2e/acknowledgement/test_held_requests.py": 18,
    "e2e/replicas/test_several_replicas.py": 81,
    "e2e/plugin/test_drain_on_a_cluster.py": 36,
    "e2e/acknowledgement/test_binds_let_through_by_another_replica.py": 67,
    "e2e/acknowledgement/test_stop_in_mid_flow.py": 50,
    "e2e/replicas/test_outages.py": 74,
    "e2e/replicas/test_leases_by_hand.py": 55,
    "e2e/hostile/test_own_objects.py": 60,
    "e2e/certs/test_authority_replacement.py": 40,
    "certs/test_rotation_model.py": 3,
    "e2e/stops/test_stop_policy_table.py": 54,
    "e2e/hostile/test_large_objects.py": 55,
    "e2e/plugin/test_plugin_on_a_cluster.py": 52,
    "e2e/acknowledgement/test_acknowledgement_names_its_specs.py": 25,
    "e2e/acknowledgement/test_late_writes_of_a_former_leader.py": 47,
    "e2e/acknowledgement/test_two_api_servers.py": 21,
    "e2e/replicas/test_roll_out.py": 50,
    "e2e/cluster/test_reflector.py": 56,
    "controller/quota/test_gangs.py": 30,
    "e2e/quota/test_giving_back.py": 12,
    "e2e/quota/test_volcanos_policies.py": 20,
    "e2e/quota/test_gangs.py": 12,
    "e2e/queues/test_clients_of_other_schemas.py": 40,
    "e2e/queues/test_hundreds_of_queues.py": 16,
    "e2e/plugin/test_why_on_a_cluster.py": 34,
    "e2e/membership/test_namespace_selectors.py": 10,
    "e2e/membership/test_managed_namespaces.py": 17,
    "e2e/membership/test_binding_namespaces.py": 4,
    "e2e/stops/test_kueue_cases.py": 65,
    "e2e/closing/test_closed_means_empty.py": 63,
    "e2e/drain/test_draining_more.py": 25,
    "e2e/drain/test_draining_stuck.py": 32,
    "e2e/stops/test_timed_stops_hold.py": 44,
    "e2e/cluster/test_watching.py": 23,
    "e2e/acknowledgement/test_forged_filter_calls.py": 14,
    "e2e/acknowledgement/test_half_open_watches.py": 20,
    "e2e/acknowledgement/test_late_pod_watch.py": 26,
    "e2e/acknowledgement/test_refused_and_waiting_pods.py": 13,
    "e2e/drain/test_draining_hostile.py": 17,
    "e2e/policies/test_policies_on_queues.py": 11,
    "e2e/membership/test_work_of_every_kind.py": 52,
    "e2e/policies/test_scores.py": 102,
    "e2e/queues/test_uninstalling.py": 60,
    "e2e/replicas/test_upgrading.py": 60,
    "e2e/localcluster/test_refused_starts.py": 20,
    "queues/status/test_acknowledgement_model.py": 14,
    "e2e/commands/test_commands_survive_crashes.py": 53,
    "e2e/drain/test_draining_jobs_of_other_projects.py": 33,
    "e2e/hostile/test_foreign_definitions.py": 36,
    "e2e/localcluster/test_without_the_server.py": 25,
    "e2e/queues/test_cycles.py": 15,
    "e2e/hostile/test_users_with_edit.py": 12,
    "e2e/podgroups/test_podgroup_phases.py": 11,
    "server/http/test_hostile_clients.py": 20,
    "e2e/acknowledgement/test_guard_probes.py": 26,
    "e2e/commands/test_commanding_queues.py": 50,
    "e2e/manifests/test_workload_rules.py": 15,
    "e2e/membership/test_jobs_of_other_projects.py": 14,
    "e2e/plugin/test_acknowledgement_on_a_cluster.py": 21,
    "e2e/plugin/test_task_pages.py": 95,
    "e2e/plugin/test_namespace_gone.py": 25,
    "e2e/plugin/test_task_pages_alone.py": 230,
    "e2e/plugin/test_move_from_kueue.py": 20,
    "e2e/plugin/test_pages_for_operators.py": 14,
    "e2e/plugin/test_convert_on_a_cluster.py": 25,
    "kubectl_queue/kueue/test_limits.py": 3,
    "kubectl_queue/kueue/test_names.py": 3,
    "kubectl_queue/kueue/test_decoding.py": 3,
    "e2e/acknowledgement/test_namespace_selectors_late_replica.py": 14,
    "e2e/localcluster/test_server_that_crashes.py": 16,
    "e2e/plugin/test_output_on_a_cluster.py": 25,
    "e2e/policies/test_scores_of_a_new_policy.py": 17,
    "e2e/drain/test_draining_gangs_and_budgets.py": 20,
    "e2e/stops/test_holding_and_resuming_by_itself.py": 9,
    "e2e/commands/test_vcctl.py": 9,
    "e2e/stops/test_resuming_lets_all_go.py": 8,
    "server/test_bad_input.py": 12,
    "server/http/http2/test_http2_worker.py": 12,
    "e2e/commands/test_volcano_clients.py": 12,
    "e2e/queues/test_rights_over_queues.py": 12,
    "server/http/test_worker_stop.py": 10,
    "e2e/queues/test_queue_fields.py": 7,
    "e2e/replicas/test_status_written_by_others.py": 12,
    "e2e/replicas/test_two_administrators.py": 8,
    "server/http/test_floods.py": 9,
    "queues/scoring/test_hostile_pods.py": 8,
    "e2e/drain/test_draining.py": 5,
    "e2e/stops/test_parked_pods.py": 6,
    "queues/drain/test_drain_plan_anywhere.py": 13,
    "queues/test_verdict_anywhere.py": 5,
    "e2e/acknowledgement/test_ways_around_a_stop.py": 6,
    "queues/test_snapshot.py": 6,
    "queues/windows/test_recurrence.py": 6,
    "queues/windows/test_in_window.py": 4,
    "queues/windows/test_rules.py": 3,
    "server/test_decoders.py": 12,
    "server/http/test_large_bodies.py": 6,
    "e2e/stops/test_many_parked_pods_say_why.py": 3,
    "queues/test_histories.py": 8,
    "server/test_openapi.py": 5,
    "docs/test_docstrings.py": 6,
    "server/http/test_client_certificates.py": 4,
    "release/test_slim.py": 3,
    "localcluster/test_interrupting.py": 2,
    "server/http/test_unread_responses.py": 2,
    "server/http/http2/test_http2_session.py": 2,
    "controller/quota/test_releases.py": 9,
    "queues/admission/test_policy_edits.py": 2,
    "server/test_start.py": 2,
    "server/http/test_worker.py": 2,
    "webhooks/test_policies.py": 2,
    "webhooks/test_reviews.py": 2,
    "webhooks/test_namespaces_not_selected.py": 2,
    "controller/test_isolated_failures.py": 2,
    "controller/test_hostile_objects.py": 8,
    "controller/pods/test_untaken_pods.py": 9,
    "e2e/queues/test_queues_closed_by_volcano.py": 15,
    "e2e/quota/test_never_over.py": 60,
    "e2e/quota/test_many_gangs.py": 140,
    "e2e/queues/test_node_groups.py": 8,
    "e2e/quota/test_book_by_hand.py": 14,
    "e2e/quota/test_with_stops.py": 25,
    "e2e/hostile/test_quota_and_users_with_edit.py": 14,
    "e2e/quota/test_capability.py": 77,
    "e2e/quota/test_untaken_pods.py": 65,
    "e2e/closing/test_closing_a_queue.py": 7,
    "e2e/cluster/test_progress.py": 6,
    "e2e/membership/test_accepted_work.py": 7,
    "e2e/stops/test_edit_command_and_plugin_agree.py": 6,
    "e2e/stops/test_reservations.py": 11,
    "kubectl_queue/ui/test_rows.py": 20,
    "server/test_hostile_objects.py": 10,
    "queues/quota/test_gang_placement.py": 18,
    "e2e/quota/test_gang_turns.py": 110,
    "controller/quota/test_gang_life.py": 4,
    "queues/scoring/test_kept_scores.py": 10,
    "queues/quota/test_waiting_index.py": 15,
    "queues/scoring/test_node_table.py": 7,
    "kubectl_queue/ui/test_refused_requests.py": 10,
    "queues/windows/test_soon.py": 3,
    "queues/quota/test_claims.py": 5,
    "queues/quota/test_gang_releases.py": 4,
    "e2e/stops/test_stopping_a_tree.py": 10,
    "e2e/windows/test_both_edges.py": 12,
    "e2e/quota/test_seen_by_people.py": 7,
    "e2e/manifests/test_examples.py": 7,
}
#: From here on a file is `slow`.
SLOW = 2
#: How far a file may be from what the table says of it, and from how many seconds on that matters.
FACTOR, MATTERS = 2.5, 5


@cache
def seconds(path: Path) -> int:
    """How long the file at `path` takes; 0 for the many that take little."""
    return SECONDS.get(path.relative_to(HERE).as_posix(), 0) if path.is_relative_to(HERE) else 0


def slow(path: Path) -> bool:
    """Whether `make test-fast` leaves the file at `path` out."""
    return seconds(path) >= SLOW


def mistaken(measured: Mapping[str, float]) -> list[str]:
    """What to change in the table, by how many seconds each file took in a whole run.

    A busy machine takes longer, and a run of one file makes the cluster that others share: so only a file
    that took `FACTOR` times as long as it says, or as little, is named.
    """
    lines = []
    for name, took in sorted(measured.items(), key=lambda item: -item[1]):
        said = SECONDS.get(name, 0)
        too_long = took > FACTOR * max(said, MATTERS)
        too_short = said > FACTOR * max(took, MATTERS)
        if too_long or too_short:
            lines.append(f'"{name}": {round(took)},  # the table says {said}')
    return lines


def missing() -> list[str]:
    """Those that are in the table and not on the disk."""
    return [name for name in SECONDS if not (HERE / name).is_file()]
