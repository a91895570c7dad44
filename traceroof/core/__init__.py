"""What every stage shares: the kernel table, recordings, facts, units, names."""
