"""The queue controller: one thread that derives status from spec, tree and members, over and over.

`loop` hears of changes and decides what is looked at when; `reconciling` looks at one queue;
`commanding`, `guarding`, `acknowledging`, `releasing`, `telling`, `founding` each do one thing.
"""
