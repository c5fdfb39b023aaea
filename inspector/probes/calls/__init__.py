"""Records what is called and launched, with which arguments, and how often."""
