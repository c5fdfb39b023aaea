"""The commands, each a function in its own module; ``inspector.commands.cli`` has the table of them."""
