"""Starts processes, and finds the vendor's tools."""
