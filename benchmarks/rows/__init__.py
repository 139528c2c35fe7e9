"""The rows: one module each, with `measure(say) -> RowResult`."""
