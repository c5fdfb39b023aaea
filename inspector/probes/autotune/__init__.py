"""Records what tuners tried and what they chose."""
