"""Commands for those who ask over a protocol: what they may ask, where, and how much they get."""
