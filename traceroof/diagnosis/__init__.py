"""From a run to a diagnosis: findings, savings, advice, explanations."""
