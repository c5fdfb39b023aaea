"""Finding things and going there: the palette, and the help."""
