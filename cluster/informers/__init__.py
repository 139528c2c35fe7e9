"""List and watch: from the API server to the cache.

Read `informers` first: it makes a reflector of each kind. Then `reflector` (the list-and-watch loop),
`dispatch` (one object that fails keeps no other back) and `event_handlers` (what queues and namespaces do
to the store). `crd_fields` checks the definitions of our own kinds; `lenient_decoding` reads what it can of
an object with a bad field.
"""
