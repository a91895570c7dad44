"""Readers: one profiler format, one module (contract: ``traceroof.parser``)."""
