"""The plugin `kubectl queue`: what operators do to queues and what users ask about them, as kubectl does it.

Read in this order: `main` and `cli` (the command line), `commands` (one file for each command or family),
`queue_objects` (queues as they were read, and the decisions of the rules on them), `edit` (how queues are
changed), `drain` and `why` (what those commands show), `output` (how it is printed), `access` (the API
server). Of the project it imports only `queues`: the rules are the same as in the server.
"""
