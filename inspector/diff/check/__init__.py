"""A gate for CI: what kernels may take, and how much worse than before they may be."""
