"""Workloads, the kinds with pod templates (`queues.workload_kinds`).

`workload_admission` (mutating, CREATE and UPDATE), `workload_patch` (what that writes), `scaling`
(validating, the subresource `scale`), `rollouts` (validating, warns where new pods wait), `gangs` (what who
asks for a gang is told).
"""
