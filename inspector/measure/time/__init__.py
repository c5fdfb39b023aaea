"""Times kernels: plans what is launched again, runs it in child processes, reads the results."""
