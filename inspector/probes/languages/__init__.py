"""One module a language of kernels: what to wait for, which function to observe, what to write.

``start.PROBES`` says which import wakes an adapter, ``private_names.toml`` what it observes, and
``emit`` writes what it has: an event ``uncaptured`` with a kernel's name, its user's line, options
and the texts of its stages. The recording makes a kernel of it, or adds it to the kernel of that
machine code or that name which the driver was asked to launch.
"""
