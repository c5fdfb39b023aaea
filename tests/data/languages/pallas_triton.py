"""Pallas, lowered to Triton."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton


def vector_add(x, y, z):
    z[...] = x[...] + y[...]


block = pallas.BlockSpec((128,), lambda i: (i,))
add = pallas.pallas_call(
    vector_add,
    out_shape=jax.ShapeDtypeStruct((1024,), jnp.float32),
    grid=(8,),
    in_specs=[block, block],
    out_specs=block,
    compiler_params=triton.CompilerParams(),
)
x = jnp.arange(1024, dtype=jnp.float32)
print(float(jax.jit(add)(x, x).sum()))
