"""Hints: what a kernel's listings, card and launch show that is worth changing."""
