"""The formats of Kubernetes: `quantities`, `label_selectors`, `timestamps`; `pod_requests`, what a pod
requests; and `conversion` to structs.
"""
