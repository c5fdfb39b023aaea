"""Reads a recording: text, listings, facts and sentences, each when it is first asked for."""
