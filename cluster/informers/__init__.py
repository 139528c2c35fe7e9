"""List and watch: from the API server to the cache.

Read `informers` first: it makes a reflector for each kind. Then `reflector` (the list-and-watch loop),
`dispatch` (an object whose handler fails does not hold up the others) and `event_handlers` (how queues and
namespaces change the store). `crd_fields` checks the definitions of our own kinds, `registrations`
watches our webhook configurations and admission policies.
"""
