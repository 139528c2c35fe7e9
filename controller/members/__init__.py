"""Which members a sync looks at, in which order, and what is done with them: `controller.pods` says how."""
