"""Compute a graph's operators again beside what a generated kernel wrote."""
