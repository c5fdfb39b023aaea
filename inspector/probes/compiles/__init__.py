"""Records what Triton, Inductor and extension builds compile, and which libraries are loaded."""
