"""The tree of kernels and variants."""
