"""What torch.compile compiled, and why."""
