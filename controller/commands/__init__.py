"""Carries out Commands, in the order of reading.

- `executor`: sends the requests that a Command takes; its docstring has the invariants and the table.
- `handler`: gives each queue's Commands to the executor, and records what came of them.

Invariants
- Requests are sent by the writers' threads, for one queue by one thread at a time, and only while we lead in
  the term in which the Commands were submitted. Events and counts are recorded on the controller's thread.
- A queue's Commands are carried out in the order of creation (their first resource version). Those that the
  queue has recorded come first, so that each is deleted before its UID leaves the record.
- If a Command fails, the other Commands of its queue are carried out. If the API server does not answer, all
  of the queue wait.
"""
