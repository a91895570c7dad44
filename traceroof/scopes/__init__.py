"""What rules judge: kernels, categories, timelines, the run, a comparison, the measurement."""
