"""How each cost grows with nodes, pods, queues and depth."""
