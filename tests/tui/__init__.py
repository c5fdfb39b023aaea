"""The terminal interface: data, behaviour, looks."""
