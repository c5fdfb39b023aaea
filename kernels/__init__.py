"""Specimens: small kernels worth reading, each with a note on what to look for in it.

Every module named in ``SPECIMENS`` has a docstring that says which lines of its listings to look
at, and ``run(device="cuda")``, which runs it on small inputs, checks the values against torch, and
returns the outputs by name. Importing a module compiles nothing and needs no GPU.

    python -m kernels                 # all of them
    python -m kernels square softmax  # some
    ptxview run -m kernels square     # and look at what was compiled
    ptxview time kernels/square.py    # which variant of it is the fastest

Some declare variants of one computation, which ``ptxview time`` runs on the same input, holds
against each other and ranks. Any file may do that; nothing of ptxview is imported for it:

* ``VARIANTS``: a dict from a name to a function, called with what ``inputs`` gives. It may launch
  any number of kernels, and must not change its arguments. What has to be compiled is compiled when
  it is called first; that is not timed. A function that torch.compile made is compiled again for
  each size, so its sizes are constants.
* ``inputs(N=781, M=1823, device="cuda")``: the arguments, a tensor or a tuple. Parameters that are
  whole numbers by default (or None) are what ``--sweep N=…`` and ``--size M=…`` set. It is called
  after ``torch.manual_seed(0)``.
* ``reference(*arguments)``, if there is one: what every variant must agree with; a result of higher
  precision is welcome. Without it, the first variant is.
* ``bytes_of(*arguments)`` and ``flops_of(*arguments)``, if they are known: what a call has to move
  at least, and how many operations it does.
* ``TOLERANCE = {"rtol": …, "atol": …}``, if ``torch.testing.assert_close``'s own for the result's
  dtype does not fit.
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
