"""What is known of kernels: groups, categories, bound class, derived metrics."""
