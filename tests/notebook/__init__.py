"""Recording from within."""
