"""A history for people and machines: text, CSV, one HTML page."""
