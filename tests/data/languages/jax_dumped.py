"""jax.jit where the program's own XLA_FLAGS have XLA write LLVM IR and PTX."""

import os
import tempfile

FOLDER = tempfile.TemporaryDirectory()
os.environ["XLA_FLAGS"] = f"--xla_dump_to={FOLDER.name} --xla_dump_emitter_re=.*"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


@jax.jit
def vector_add(x, y):
    return jnp.tanh(x) + y


x = jnp.arange(1000, dtype=jnp.float32)
print(float(vector_add(x, x).sum()))
