"""Repeats recorded calls in a child process and times them."""
