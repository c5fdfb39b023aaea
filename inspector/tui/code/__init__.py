"""One listing on the screen: lines, gutter, folds, marks."""
