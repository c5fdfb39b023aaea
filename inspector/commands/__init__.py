"""The commands, each a function in its own module; ``inspector.cli`` has the table of them."""
