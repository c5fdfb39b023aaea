"""Titles of generated kernels, from facts: ``#11 poi silu·mul 4×128×1376 bf16 · act.py:66``.

Inductor's own names list every operator, view and cast, and differ in their last letters.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from inspector.base.model import Argument, Kernel, MadeFrom, Origin, Recording, Variant
from inspector.base.text import shown, words

_GENERATED = re.compile(r"triton_(?P<kind>[a-z]+)_fused_.*?(?P<number>_\d+)?$")
"""Inductor's kernel names (``torch/_inductor/codegen/triton.py``): kind, operators, number."""
LAYOUT = frozenset(
    words(
        "_to_copy _unsafe_view alias arange as_strided clone convert_element_type detach expand "
        "full permute reshape scalar_tensor select slice split squeeze t transpose unsqueeze view"
    )
)
"""Operators that compute nothing; named only where a kernel has no others."""
_MOVES = LAYOUT | {"iota", "broadcast_in_dim"}
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "flex_attention")
"""What templates compute; the other operators are fused around them."""
MAX_OPERATORS = 3
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
"""Constants of templates; the last is read from TTGIR where there are none."""
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def titles(rec: Recording) -> dict[str, str]:
    """The title of each generated kernel by its id; no two are alike."""
    made = {
        kernel.id: title(kernel)
        for kernel in rec.kernels
        if kernel.origin is Origin.INDUCTOR and kernel.fusion is not None and kernel.variants
    }
    alike = Counter(made.values())
    return {
        name: text if alike[text] == 1 else f"{text} · {shown(name[-24:])}"
        for name, text in made.items()
    }


def title(kernel: Kernel) -> str:
    """One kernel's title: number, kind, operators, shape and dtype, tile, source line, launches.
    Of a kernel that was not generated, its name."""
    if kernel.origin is not Origin.INDUCTOR or kernel.fusion is None or not kernel.variants:
        return shown(kernel.called)
    variant = representative(kernel.variants)
    named = _GENERATED.match(kernel.name)
    parts = [f"#{named['number'][1:]}" if named is not None and named["number"] else ""]
    template = named is not None and named["kind"] == "tem"
    if named is not None and not template:
        parts.append(named["kind"])
    parts += [_operators(kernel, template), _shape(variant)]
    head = " ".join(filter(None, parts))
    warps, stages = (variant.config.get(name) for name in ("num_warps", "num_stages"))
    sizes = f"{tile(variant.config, variant.tile)} w{warps} s{stages}" if template else ""
    launches = f"×{variant.launches}" if variant.launches else ""
    return shown(" · ".join(filter(None, (head, sizes.strip(), _place(kernel), launches))))


def representative(variants: Sequence[Variant]) -> Variant:
    """Return the variant that was launched most, else the tuner's choice, else the first."""
    launched = [v for v in variants if v.launches]
    best = [v for v in variants if (v.autotune or {}).get("winner") is True]
    return max(launched, key=lambda v: v.launches or 0, default=(best or variants)[0])


def _operators(kernel: Kernel, template: bool) -> str:
    assert kernel.fusion is not None
    names = list(dict.fromkeys(op.partition(".")[2] or op for op in kernel.fusion.ops))
    chosen = [n for n in names if template and n in PRODUCTS] or [
        n for n in names if n not in LAYOUT
    ]
    chosen = chosen or names
    rest = f"+{len(chosen) - MAX_OPERATORS}" if len(chosen) > MAX_OPERATORS else ""
    return "·".join(chosen[-MAX_OPERATORS:]) + rest


def _shape(variant: Variant) -> str:
    """Shape and dtype of the largest tensor that is written, else of the largest tensor."""
    arguments = [a for call in variant.calls[:1] for a in call.arguments if a.shape is not None]
    written = [a for a in arguments if "out_ptr" in a.name]
    largest = max(written or arguments, key=_elements, default=None)
    if largest is None:
        return ""
    dtype = DTYPES.get(largest.dtype or "", largest.dtype or "")
    return f"{'×'.join(map(str, largest.shape or ())) or 'scalar'} {dtype}"


def _elements(argument: Argument) -> int:
    out = 1
    for size in argument.shape or ():
        out *= size
    return out


def tile(config: Mapping[str, object], by_ttgir: str | None = None) -> str:
    """The tile of a matrix product, ``64·32·128``; "" if unknown."""
    sizes = [config.get(name) for name in TILE]
    return by_ttgir or "" if None in sizes else "·".join(map(str, sizes))


def _place(kernel: Kernel) -> str:
    """The user's line of which most operators are in it, the last of several."""
    made = kernel.fusion.made_from if kernel.fusion is not None else ()

    def weight(part: MadeFrom) -> int:
        bases = [target.split(".")[1:2] for target in part.targets]
        return sum(not base or base[0] not in _MOVES for base in bases)

    most = max(reversed(made), key=weight, default=None)
    return "" if most is None else f"{PurePath(most.file).name}:{most.line}"
