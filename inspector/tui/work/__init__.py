"""Screens for one variant or recording: times, edits, passes, compiles."""
