"""How long a kernel takes: what is launched again, in which child, and what came of it."""
