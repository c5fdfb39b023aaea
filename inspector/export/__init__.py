"""Recordings for somebody else: a page, a text, a folder, one file."""
