"""Kernels that the CUDA driver is asked to launch, by any maker."""
