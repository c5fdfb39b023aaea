"""What listings say of a kernel: pure functions from values to values."""
