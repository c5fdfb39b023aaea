"""Makes recorded calls again in a child process, and takes their times."""
