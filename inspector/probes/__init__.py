"""Scripts for the user's interpreter: its standard library, torch and triton alone.

The folder is imported there under the name ``ptxview_probes`` by ``bootstrap/sitecustomize.py``.
Nothing here may raise into the user's program, print a line, or wait for the device.
"""
