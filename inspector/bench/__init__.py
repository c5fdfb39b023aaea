"""Runs recorded calls again and takes their time; results are values."""
