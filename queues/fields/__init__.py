"""The table of the fields of a Queue's `spec`: of each its name, whose it is, what it does, its check and its
reader. The cache and the plugin read by it, admission checks by it, and the help of the plugin has its words;
the CustomResourceDefinition and docs/reference/queue.md are held to it by `tests/queues/fields`.

Read in this order: `row` (what a row says), `table` (the rows), `drain` (those of `spec.drain`), `windows`
(the checks of change windows), `checks` (of which the rows are made), `reading` (from the fields to a
`queues.queue.Queue`).

To add a field, add its row here; the tests then name each place that lacks it. What follows from the field is
a rule of its own, in `queues`.
"""
