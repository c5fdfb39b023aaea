"""What a program's profile says: operators, kernels, and which launched which."""
