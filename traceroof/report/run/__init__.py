"""Renderers of one run."""
