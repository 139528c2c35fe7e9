"""The rows: one module each, with `found(say) -> Found`."""
