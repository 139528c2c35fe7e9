"""What commands and a page both show of queues, as values.

Promises
- Objects and the time in, frozen values out: nothing here prints, reads, waits, or knows how wide a line is.
- It imports `objects`, `errors` and `queues` alone; `make lint` holds it.

Read in this order: `text` (ages and numbers), `acknowledgement` (how far an edit is), `drain_status` (how far
a drain is), `edit_steps` (the way of an edit, step by step), `queue_tree` (the rows of the tree), `problems`
(what is wrong with one), `queue_table` (the columns of the list), `why` (why an object waits), `history` and
`waiting_pods` (of one queue), `drain_preview` (what a drain would do), `server_status` (how the server is),
`windows` (change windows) and `calendar` (the same for other programs). What an edit would do is in
`edit.preview`, since the rules for that are there.
"""
