"""One cluster of values and its two readers: the leader's cache, and the lists of the plugin."""
