"""`kubectl queue why`: what stops an object.

Read in this order: `targets` (what may be asked about), `explainer` (reads the object, its owners, its queue
and the chain, and asks the rules in `queues.why`), `subject` and `membership` (the object as the rules take
it, and its queue), `rendering` (the answer in lines).
"""
