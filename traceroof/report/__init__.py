"""From a finished diagnosis to text: one module a format."""
