"""ptxview: walk from a line of Python to the SASS that it became."""

__version__ = "0.1.0"
