"""Releases pods that wait for room in a quota; the leader alone does. The rules are in `queues.quota`.

- `book_writes`: opens the book, and writes it.
- `releases`: whom to release, and what became of each release.
"""
