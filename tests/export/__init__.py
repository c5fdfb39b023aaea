"""What is written for somebody else."""
