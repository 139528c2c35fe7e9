"""The formats of Kubernetes: `quantities`, `label_selectors`, `timestamps`, `booleans`, `yaml_events`;
`pod_requests`, what a pod requests; and `conversion` to structs.
"""
