"""Values, names and texts that every room shares, and what prints them."""
