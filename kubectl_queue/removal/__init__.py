"""Takes Sluice off a cluster.

`inventory` reads what is there of it; `remover` removes that in a safe order.
"""
