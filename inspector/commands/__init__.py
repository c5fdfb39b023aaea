"""The commands, a module each; ``inspector.commands.cli`` has their table."""
