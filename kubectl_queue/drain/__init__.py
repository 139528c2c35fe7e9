"""Drains as the plugin shows them.

Read in this order: `spec_flags` (the flags that set `spec.drain`), `inventory` (the pods, Jobs and budgets of
the cluster, read with the user's rights), `preview` (--dry-run: what would go, stay and be blocked),
`progress` (how far a drain is).
"""
