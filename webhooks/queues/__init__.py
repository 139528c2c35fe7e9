"""Queues: `queue_admission` (mutating: defaults and history), `requested_fields` (which fields a request
sets), and `queue_validation` (validating: which edits and deletions are allowed).
"""
