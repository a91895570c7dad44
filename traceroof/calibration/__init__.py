"""What a device reaches: measured from profiles of probes, and applied to the ceilings of a run."""
