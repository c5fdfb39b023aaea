"""Two variants side by side on the screen."""
