"""Nsight tools: what their parsers share."""
