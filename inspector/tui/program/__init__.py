"""A program that runs beneath the interface: its state and its output."""
