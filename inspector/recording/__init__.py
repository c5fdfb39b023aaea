"""Reads recordings: their layout on disk, and their events assembled into kernels and calls."""
