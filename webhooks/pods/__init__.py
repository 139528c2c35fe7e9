"""Pods: `pod_admission` (mutating, CREATE), `pod_patch` (what that writes), `pod_validation` (validating,
CREATE and UPDATE), and `binds`, the guard on `pods/binding`.
"""
