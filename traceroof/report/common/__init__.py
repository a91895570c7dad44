"""What several renderers share."""
