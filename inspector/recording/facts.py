"""Decodes events: values of expected types, spans, targets, configurations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TypeVar

import msgspec

from inspector.base.errors import PtxviewError
from inspector.base.model import Content, Resources
from inspector.listing.ptx_statement import bounds, entries

Event = Mapping[str, object]
_TARGET = re.compile(rb"^[^\S\n]*+\.target\s++([\w.]++)", re.MULTILINE)
PROLOGUE = 2000
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*\)")
_NAME = re.compile(r"(?<!\w)(\w++)\s*+$")
INTEGER_BOUND = 1 << 63
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Fields of CUDAOptions in triton/backends/nvidia/compiler.py, 3.2 to 3.9, that stages after the
# frontend read; paths and what a configuration already tells are left out.
OPTIONS = frozenset((
    "triton_version", "enable_fp_fusion", "ptx_version", "ptx_options", "launch_cooperative_grid",
    "launch_pdl", "max_num_imprecise_acc_default", "debug", "sanitize_overflow", "cluster_dims",
    "instrumentation_mode", "min_shared_mem", "clc", "sched4reg", "enable_reflect_ftz",
    "num_consumer_groups", "num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer",
    "minRegAutoWS", "maxRegAutoWS", "fpsan_homomorphic_casts",
))  # fmt: skip
T = TypeVar("T")


def decoded(value: Mapping[str, object], kind: type[T], say: Callable[[str], None]) -> T | None:
    """Convert an event, or a part of one, to a value of the model.

    Null fields take their defaults, unknown fields are ignored. A malformed event gives None, and
    ``say`` is called with a sentence on it.
    """
    try:
        if not _fits(value):
            raise msgspec.ValidationError("a number has more than 63 bits")
        return msgspec.convert({k: v for k, v in value.items() if v is not None}, kind)
    except msgspec.ValidationError as error:
        say(f"a record of kind {value.get('event')} is malformed and was left out: {error}")
        return None


def _fits(value: object) -> bool:
    """Whether all integers in a value have at most 63 bits."""
    if isinstance(value, Mapping):
        return all(map(_fits, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_fits, value))
    return not isinstance(value, int) or abs(value) < INTEGER_BOUND


def as_map(value: object) -> dict[str, object]:
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_int(value: object) -> int | None:
    """A count or a size as an int; None for any other value, or one beyond 63 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < INTEGER_BOUND else None


def as_integers(value: object) -> tuple[int, ...] | None:
    """All of a sequence, or None if one of it is no integer."""
    if not isinstance(value, list | tuple) or any(as_int(n) is None for n in value):
        return None
    return tuple(value)


def as_three(value: object) -> tuple[int, int, int] | None:
    """A grid or a block, in x, y and z; None for any other value."""
    numbers = as_integers(value)
    if numbers is None or len(numbers) != 3:
        return None
    return numbers[0], numbers[1], numbers[2]


def as_seconds(value: object) -> float | None:
    """A time that may have passed; None for any other value."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < 1e9 else None


def as_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def digest_of(content: Content | None) -> str:
    if content is None:
        return ""
    try:
        return hashlib.sha256(content.read()).hexdigest()
    except PtxviewError:
        return ""


def text_of(content: Content | None) -> str:
    if content is None:
        return ""
    try:
        return content.read().decode("utf-8", "surrogateescape")
    except PtxviewError:
        return ""


def python_span(source: Mapping[str, object]) -> tuple[int, int] | None:
    first, last = source.get("first"), source.get("last")
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def cuda_kernels(text: str) -> tuple[str, ...]:
    """Names of the ``__global__`` functions of CUDA C++, as they are written there."""
    names: dict[str, None] = {}
    position = text.find("__global__")
    while position >= 0:
        head = _BOUNDS.sub(" ", text[position + len("__global__") : position + PROLOGUE])
        name = _NAME.search(head.partition("(")[0]) if "(" in head else None
        if name:
            names[name[1]] = None
        position = text.find("__global__", position + 1)
    return tuple(names)


def cuda_span(text: str, name: str) -> tuple[int, int] | None:
    """Lines of a kernel in CUDA C++: from ``__global__`` to the brace that closes its body."""
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        # Launch bounds, templates and a return type stand between, never a page of them.
        start = text.rfind("__global__", max(0, match.start() - PROLOGUE), match.start())
        between = text[start : match.start()] if start >= 0 else ";"
        if ";" not in between and "}" not in between:
            depth, brace = 0, text.find("{", match.end())
            end = brace
            for end in range(max(brace, 0), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            return text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
    return None


def target_of(ptx: Content | None, metadata: Mapping[str, object]) -> str | None:
    if ptx is not None:
        try:
            match = _TARGET.search(ptx.read()[:65536])
        except PtxviewError:
            match = None
        if match:
            return match[1].decode()
    arch = as_map(metadata.get("target")).get("arch")
    return f"sm_{arch}" if isinstance(arch, int) else as_text(arch)


def config_of(metadata: Mapping[str, object], event: Event) -> dict[str, object]:
    out: dict[str, object] = {k: metadata[k] for k in CONFIG if k in metadata}
    declared = event.get("declared")
    # An integer argument that was 1 is compiled in as well; it is a specialisation.
    out.update(
        (name, value)
        for name, value in as_map(event.get("constexprs")).items()
        if not isinstance(declared, list) or name.partition("[")[0] in declared
    )
    return out


def specialization_of(event: Event) -> dict[str, object]:
    out = as_map(event.get("specialization"))
    declared = event.get("declared")
    if isinstance(declared, list):
        for name, value in as_map(event.get("constexprs")).items():
            if name.partition("[")[0] not in declared:
                out[name] = [["constant", value]]
    return {k: v for k, v in out.items() if v}


def figures_of(event: Event) -> tuple[str, Resources]:
    """A hash, with a symbol if ptxas said it, and the figures of ptxas or the loaded binary."""
    digest = str(event.get("hash"))
    if event.get("event") == "ptxas":
        return f"{digest}\0{event.get('symbol')}", Resources(
            spill_store_bytes=as_int(event.get("spill_store_bytes")),
            spill_load_bytes=as_int(event.get("spill_load_bytes")),
            barriers=as_int(event.get("barriers")),
        )
    # The loaded binary counts words of local memory; none of it means that nothing was spilled,
    # some of it may be arrays as well as spills.
    spilled = 0 if event.get("local_words") == 0 else None
    return digest, Resources(spill_store_bytes=spilled, spill_load_bytes=spilled)


def options_of(event: Event, metadata: Mapping[str, object]) -> dict[str, object]:
    """Triton's options among a kernel's metadata, or beside them in an exported recording."""
    told = {**as_map(event.get("options")), **metadata}
    return {k: v for k, v in told.items() if k in OPTIONS and v is not None}


# -- resources -------------------------------------------------------------------------------------

_FUNCTION = re.compile(r"^\s*Function (.+):\s*$")
_FIGURE = re.compile(r"\b([A-Z]+)(?:\[\d+\])?:(\d{1,9}+)(?!\d)")
_COMPILING = re.compile(r"Compiling entry function '([^']+)'|Function properties for (\S+)")
_SPILLS = re.compile(
    r"(?<!\d)(\d{1,9}+) bytes stack frame, (\d{1,9}+) bytes spill stores, "
    r"(\d{1,9}+) bytes spill loads"
)
_BARRIERS = re.compile(r"used (\d{1,9}+)(?!\d) barriers")


def from_res_usage(text: str) -> dict[str, Resources]:
    """``cuobjdump -res-usage``: registers, stack and static shared bytes, by function."""
    return {
        name: Resources(
            registers=figures.get("REG"),
            stack_bytes=figures.get("STACK"),
            static_shared_bytes=figures.get("SHARED"),
        )
        for name, figures in _res_usage(text)
    }


def without_local_memory(text: str) -> frozenset[str]:
    """Functions of ``cuobjdump -res-usage`` with neither a stack nor other local memory.

    Functions without registers are left out: they are not linked yet, and their figures unknown.
    """
    return frozenset(
        name
        for name, figures in _res_usage(text)
        if figures.get("REG") and figures.get("STACK") == 0 and figures.get("LOCAL") == 0
    )


def _res_usage(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Each function with its figures, as ``cuobjdump -res-usage`` calls them."""
    name: str | None = None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            name = match[1]
        elif name is not None and "REG:" in line:
            yield name, {key: int(figure) for key, figure in _FIGURE.findall(line)}
            name = None


def from_ptxas(text: str) -> dict[str, Resources]:
    """``ptxas -v``: spilled bytes and barriers, by function."""
    out: dict[str, Resources] = {}
    name = ""
    for line in text.splitlines():
        if match := _COMPILING.search(line):
            name = match[1] or match[2]
        if match := _SPILLS.search(line):
            out[name] = replace(
                out.get(name, Resources()),
                spill_store_bytes=int(match[2]),
                spill_load_bytes=int(match[3]),
            )
        if "Used " in line and " registers" in line:
            # Where the kernel has no barrier, ptxas 12 leaves the word out and ptxas 13 says 0.
            barriers = _BARRIERS.search(line)
            out[name] = replace(
                out.get(name, Resources()), barriers=int(barriers[1]) if barriers else 0
            )
    return out


def max_threads(ptx: str) -> dict[str, int]:
    """The threads a block that ``.reqntid`` or ``.maxntid`` allows, by kernel.

    For all kernels of a file at once, since there may be thousands.
    """
    out: dict[str, int] = {}
    for name, header in entries(ptx):
        limits = bounds(header)
        threads = limits.get("reqntid") or limits.get("maxntid")
        if threads is not None:
            out.setdefault(name, prod(threads))
    return out


def merge(*parts: Resources) -> Resources:
    """The first known value of each figure."""
    figures: dict[str, int] = {}
    for name in Resources.__dataclass_fields__:
        for part in parts:
            value: int | None = getattr(part, name)
            if value is not None:
                figures[name] = value
                break
    return Resources(**figures)
