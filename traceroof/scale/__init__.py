"""Many files at once: the map of each file runs in this process, on processes, or on a cluster."""
