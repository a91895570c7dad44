"""AMD and Hygon tools: what their parsers share."""
