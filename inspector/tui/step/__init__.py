"""One block of a kernel, run on the CPU, step by step beside its listings."""
