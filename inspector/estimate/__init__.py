"""How long a launch takes, without a GPU: one SM is simulated from code and executed PTX."""
