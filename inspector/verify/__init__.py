"""Which generated kernel is wrong: each beside its own operators on the same inputs."""
