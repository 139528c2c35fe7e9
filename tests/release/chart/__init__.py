"""The chart as text: no Helm, no cluster."""
