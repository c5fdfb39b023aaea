"""A stage that was edited, through the rest of its compiler: figures, errors, results, times."""
