"""Kernels that the CUDA driver is asked to launch, whoever made them."""
