"""The requests that evict or delete a pod, or suspend its workload. Drains, quotas and gangs send them.

- `answers`: what came of a request.
- `pods`: a pod is evicted, or deleted.
- `granted`: how a request is sent, and what is said once it was granted: metric, events, condition.
- `budget_reader`: which budgets there are, as the API server has them now.
- `suspend_patches`: a workload is suspended, with the mark by which it is resumed.

The sender decides which pod goes, and checks just before the request that it still should.
"""
