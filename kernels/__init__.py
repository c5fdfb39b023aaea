"""Specimens: small kernels worth reading, each with a note on what to look for in it.

Every module named in ``SPECIMENS`` has a docstring that says which lines of its listings to look
at, and ``run(device="cuda")``, which runs it on small inputs, checks the values against torch, and
returns the outputs by name. Importing a module compiles nothing and needs no GPU.

    python -m kernels                 # all of them
    python -m kernels square softmax  # some
    ptxview run -m kernels square     # and look at what was compiled
"""

SPECIMENS = (
    "square",
    "square_cuda",
    "gelu_cuda",
    "gelu_cuda_float",
    "softmax",
    "matmul",
    "fused",
    "hint_cuda",
    "hint_triton",
)
