"""Recordings for somebody else: a page, a text, one file."""
