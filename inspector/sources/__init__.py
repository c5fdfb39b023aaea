"""Runs the program, and reads what the probes wrote and what caches hold."""
