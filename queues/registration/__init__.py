"""Whether the API server asks us: what our webhook configurations and admission policies lack.

A stop and a quota hold for pods that the API server asks about. Whoever may edit these objects can end that
without a word to us. `coverage` has the rule and its table; `needs` says what is needed of which object;
`expressions` knows the texts of conditions and validations; `selectors` compares selectors; `objects` are the
objects as the API server has them.
"""
