"""Reads reports of Nsight Compute and ties them to variants and lines."""
