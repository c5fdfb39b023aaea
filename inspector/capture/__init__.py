"""Running the program, and reading what the probes and the caches left."""
