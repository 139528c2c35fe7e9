"""The plugin `kubectl queue`: shows, stops, drains and resumes queues, with the manners of kubectl.

Every verb goes this way
1. `main`: the exit code, and no stack trace. `cli.run` finds the verb in `commands.verbs`, reads its flags
   (`cli.flags`) and runs it in a `session`, which has the flags, the console and the API server.
2. `commands/`: each file has one verb or a few that are alike, and begins with the function that runs it.
3. `access/`: requests to the API server, through kubectl. `objects/`: what was read, and what the rules in
   `queues` decide on it.
4. `views/`: what is shown of that, as values. `output/`: tables, documents and the terminal.

| verb                                | its files, in the order to read                                      |
|-------------------------------------|----------------------------------------------------------------------|
| list, get                           | `commands.get`, `views.queue_table`, `output.tables`                 |
| tree                                | `commands.tree`, `views.queue_tree`                                  |
| ui                                  | `commands.ui`, then as `kubectl_queue.ui` says                       |
| usage                               | `commands.usage`, `views.usage`, `output.usage`                      |
| reclaim                             | `commands.reclaim`, `why.reclaim`, `policies.config_map`             |
| why                                 | `commands.why`, `why.targets`, `why.explainer`, `why.membership`,    |
|                                     | `views.why`                                                          |
| convert                             | `commands.convert`, then as `kubectl_queue.kueue` says               |
| policy                              | `commands.policy`, `policies.config_map`, `policies.manifest_check`, |
|                                     | `policies.explainer`                                                 |
| status                              | `commands.status`, `views.server_status`, `output.server_status`     |
| history, create, delete, version    | the file of its name in `commands/`                                  |
| move                                | `commands.move`, `edit.move_operation`, `edit.editor`                |
| open, close, suspend, resume        | `commands.actions`, `edit.action_operation`, `edit.editor`           |
| hold                                | `commands.actions`, `edit.stop_policy_operation`, `edit.editor`      |
| drain, stop                         | `commands.drain`, `drain.spec_flags`, `edit.stop_policy_operation`,  |
|                                     | `edit.editor`; --dry-run: `drain.inventory`, `views.drain_preview`   |
| windows                             | `commands.windows`, `views.windows`, `views.calendar`,               |
|                                     | `edit.window_operation`, `edit.editor`                               |
| uninstall                           | `commands.uninstall`, `removal.inventory`, `removal.remover`         |
| what an edit asks and warns of      | `edit.consequences`                                                  |
| --wait of any of them               | `edit.wait`, `views.acknowledgement`, `views.drain_status`           |

Of the project it imports `queues` alone.
"""
