"""Recording from within: a block of a program, a cell of a notebook."""
