"""The terminal interface: screens, widgets, styles, and one table of commands."""
