"""XLA's profiler (JAX, TensorFlow): what its parser is made of."""
