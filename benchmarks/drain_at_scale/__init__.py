"""A tree of queues is drained and given back, beside `kubectl delete` of the same pods."""
