"""Taking times from the interface, and showing them."""
