"""GPUs, their ceilings and rooflines, their vendors' terms."""
