"""Runs a program under torch.profiler."""
