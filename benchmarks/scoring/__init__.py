"""What scheduling policies that score nodes cost, and how fast they act.

Read in this order: `policies` (those that the rows use), `cluster` (5,000 nodes with 100,000 pods), then the
rows: `row` (one prioritize call), `members` (binds a second). `twin` is a Go extender that does the same.
"""
