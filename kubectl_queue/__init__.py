"""The plugin `kubectl queue`: shows, stops, drains and resumes queues, with the manners of kubectl.

Read in this order
- `main`: the exit code, and no stack trace. `cli.run` finds the command, reads its flags and runs it.
- `session`: what a command is given: its flags, its console, and the API server once it asks for it.
- `commands`: one file per command. They edit queues (`edit`), drain them (`drain`) and explain (`why`).
- `queue_objects`: Queue objects as the rules of `queues` take them.
- `access`: the API server, through kubectl. `output`: tables, trees, documents, the terminal.

Of the project it imports `queues` alone.
"""
