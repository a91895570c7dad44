"""What timeline formats share: calls, ranges and how they contain one another."""
