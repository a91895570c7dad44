"""What the readers of clock and power logs share."""
