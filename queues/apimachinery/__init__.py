"""The formats of Kubernetes: `quantities`, `label_selectors`, `timestamps`; and `conversion` to structs."""
