"""The application around the screens: commands, keys, themes, what is remembered."""
