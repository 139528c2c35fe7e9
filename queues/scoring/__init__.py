"""Which nodes a scheduling policy prefers: Volcano's formulae over all nodes of a call at once.

Read in this order: `requests` (what a pod asks for, in whole units), `node_table` (what nodes have and what
is used of it), `resource_scores` (binpack, least and most requested, balanced), `levels` (scores to the 0..10
of an extender). Only this package needs numpy, so that it is loaded when the first policy scores.
"""
