"""Tells what is called and launched, with what, and how often."""
