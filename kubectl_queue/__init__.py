"""The plugin `kubectl queue`: what an operator does to queues, in kubectl's own manners.

Reads flags (`flags`), finds the API server (`kubeconfig`, `access`), talks to it (`transport`,
`api`), decides by the rules in `queues` (`deciding`) and prints as kubectl prints. Each verb is
a module of `verbs`; `verbs.VERBS` is the table of them. Of the project it imports `queues` alone.
"""
