"""torch.profiler: what its parser is made of."""
