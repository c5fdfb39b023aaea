"""Running the graph that Inductor was given, operator by operator, for its values."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from . import native


def values_of(gm: Any) -> Callable[..., Any]:
    """A stand-in for the compiled graph: called as Inductor's own callable is, with a list."""
    import torch

    # Inductor rewrites the graph that it is given: this is a copy over the same attributes.
    graph = copy.deepcopy(gm.graph)
    replaced = _seeded(torch)
    for node in graph.nodes:
        if node.op == "call_function" and node.target in replaced:
            node.target = replaced[node.target]
    module = torch.fx.GraphModule(gm, graph)

    def call(inputs: Any, *rest: Any) -> Any:
        given = list(inputs)
        if isinstance(inputs, list):  # the caller gives its references up, as it does to Inductor
            inputs.clear()
        with torch.no_grad():
            return module(*given)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _seeded(torch: Any) -> dict[Any, Any]:
    """Inductor's random prims as functions of their seed.

    The forward and the backward graph each draw from the same seed and must get the same numbers;
    the prims' own eager implementations ignore it.
    """
    prims = torch.ops.prims

    def generator(seed: Any) -> Any:
        made = torch.Generator(device=seed.device)
        return made.manual_seed(int(seed.item()))

    def drawn(draw: Callable[..., Any], seed: Any) -> Any:
        why = native.absence(seed)
        if not why:
            return draw(generator(seed))
        made = draw(None)
        native.mark_absent(made, why)
        return made

    def random(size: Any, seed: Any, mode: str, *, align_dtype: Any = None, **ignored: Any) -> Any:
        draw = functools.partial(getattr(torch, mode), size, device=seed.device)
        return drawn(lambda g: draw(generator=g, dtype=torch.float32), seed)

    def randint(low: int, high: int, size: Any, seed: Any) -> Any:
        draw = functools.partial(torch.randint, low, high, size, device=seed.device)
        return drawn(lambda g: draw(generator=g), seed)

    def lookup_seed(seeds: Any, index: int) -> Any:
        return seeds[index].clone()  # torch 2.6's own returns a view, and refuses it

    seeded = {"random": random, "randint": randint, "lookup_seed": lookup_seed}
    return {
        getattr(prims, f"inductor_{name}").default: function
        for name, function in seeded.items()
        if hasattr(prims, f"inductor_{name}")
    }
