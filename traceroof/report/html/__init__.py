"""The HTML bottleneck report."""
