"""The screen of passes: which there were at the left, what one changed at the right."""
