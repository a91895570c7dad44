"""Renderers of a comparison."""
