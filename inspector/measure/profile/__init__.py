"""Reads a program's profile: operators, kernels, and which launched which."""
