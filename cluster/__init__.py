"""All we know of the cluster and all we say to it.

`client` speaks to the API server, `reflector` keeps a kind up to date, `store` holds what is
known and publishes it to readers, `passes` remembers what we let through, `events` and
`writing` say things.
"""
