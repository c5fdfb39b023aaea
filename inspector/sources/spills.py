"""Spilled bytes and barriers: from the cubin's own records, else from ``ptxas -v``.

A kernel spills to local memory, which is on its stack, or to shared memory, which the cubin has on
record: one with neither has spilled nothing. For others ``ptxas -v`` is run on the recorded PTX, if
the same assembler is found. That is proved, not assumed: the machine code that it writes must equal
the recorded one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inspector.base.errors import PtxviewError
from inspector.base.model import Resources, Stage, Variant
from inspector.listing.cubin import Cubin, function_records, read_cubin
from inspector.recording.facts import from_ptxas, without_local_memory
from inspector.recording.layout import DerivedCache
from inspector.sources.disassembly import usage_text
from inspector.sources.nvcc import same_code
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import every, version_of

# Triton's own options, by version: 3.9 gives the register allocator's level, all give lines
# unless options forbid it, and fused multiply-add is the kernel's choice.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-lineinfo",),
    ("-lineinfo", "--regAllocOptLevel=2"),
    ("-lineinfo", "--fmad=false"),
    ("-lineinfo", "--fmad=false", "--regAllocOptLevel=2"),
    (),
)
# Cached instead of machine code if an assembler refused the PTX; no cubin begins so.
_REFUSED = b"\0ptxas would not"


def assemblers(folders: Iterable[str | None]) -> list[Path]:
    """Every ptxas in folders of triton packages, then those that the toolchain finds."""
    paths = [path for folder in folders if folder for path in _of_triton(folder)]
    paths += [t.path for t in every("ptxas")]
    return list(dict.fromkeys(paths))


def _of_triton(folder: str) -> list[Path]:
    binaries = Path(folder) / "backends" / "nvidia" / "bin"
    return [p for p in sorted(binaries.glob("ptxas*")) if p.is_file()]


def versions(folder: str | None) -> dict[str, str]:
    """The versions of the assemblers in a folder of a triton package, by file name."""
    by_name = {p.name: _version(p) for p in _of_triton(folder)} if folder else {}
    return {name: version for name, version in by_name.items() if version is not None}


def on_record(cubin: bytes, usage: str) -> dict[str, Resources]:
    """Barriers of each function, and 0 spilled bytes if it has no memory to spill to.

    ``usage`` is the output of ``cuobjdump -res-usage`` for the cubin. The kernels' figures equal
    those that ``ptxas -v`` printed when it made the cubin; functions that they call may differ.
    """
    clean = without_local_memory(usage)
    return {
        name: Resources(spill_store_bytes=0, spill_load_bytes=0, barriers=record.barriers)
        if name in clean and record.linked and not record.shared_scratch
        else Resources(barriers=record.barriers)
        for name, record in function_records(cubin).items()
    }


def of_variant(
    variant: Variant, tools: Sequence[Path], cache: DerivedCache
) -> dict[str, Resources]:
    """Spills and barriers of a variant: on record in the cubin, else found by ``measure``.

    Empty if the cubin, or the PTX that ``measure`` needs, is not available.
    """
    sass = variant.stages.get(Stage.SASS)
    if sass is None:
        return {}
    try:
        cubin = sass.content.read()
        recorded = on_record(cubin, usage_text(cubin, cache)).get(variant.symbol)
    except (PtxviewError, OSError):
        recorded = None
    if recorded is not None and recorded.spill_store_bytes is not None:
        return {variant.symbol: recorded}
    return assembled(variant, tools, cache)


def assembled(variant: Variant, tools: Sequence[Path], cache: DerivedCache) -> dict[str, Resources]:
    """The result of ``measure`` for a variant; empty if its PTX or cubin is not available."""
    ptx, sass = variant.stages.get(Stage.PTX), variant.stages.get(Stage.SASS)
    if ptx is None or ptx.costly or sass is None or variant.target is None:
        return {}
    try:
        return measure(ptx.content.read(), sass.content.read(), variant.target, tools, cache)
    except (PtxviewError, OSError):
        return {}


def measure(
    ptx: bytes, cubin: bytes, target: str, tools: Sequence[Path], cache: DerivedCache
) -> dict[str, Resources]:
    """Spills and barriers by function; empty if no available assembler makes the same code."""
    made = reproduction(ptx, cubin, target, tools, cache)
    return {} if made is None else from_ptxas(made.printed)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """An assembler that makes a cubin's machine code of its PTX, with which options, and what it
    prints with ``-v``."""

    tool: Path
    options: tuple[str, ...]
    printed: str


def reproduction(
    ptx: bytes,
    cubin: bytes,
    target: str,
    tools: Sequence[Path],
    cache: DerivedCache,
    among: Sequence[tuple[str, ...]] = OPTIONS,
) -> Reproduction | None:
    """Which of these assemblers makes the same machine code, with the first options that do.

    None if none does. Several sets of options may give the same code of one text and not of
    another: who will assemble others has those first that are the likeliest.
    """
    built = read_cubin(cubin)
    if built is None:
        return None
    for tool in tools:
        if not _may_be(built, tool):
            continue
        for options in among:
            printed = _assemble(tool, options, ptx, target, cache)
            if printed is None:
                # An assembler that refuses the PTX with the first options is not tried again; one
                # that does not know an option may accept the next ones.
                if options == among[0]:
                    break
                continue
            text, assembled_cubin = printed
            if same_code(built, read_cubin(assembled_cubin)):
                return Reproduction(tool, options, text)
    return None


def _may_be(built: Cubin, tool: Path) -> bool:
    """Whether this assembler may have made a cubin: by the version it names, else its ELF ABI."""
    version = _version(tool)
    if version is None or built.ptxas is not None:
        return version == built.ptxas
    # ABI 7 is CUDA 12's and names no version; ABI 8 came with CUDA 13.
    return (int(version.split(".")[0]) < 13) == (built.abi < 8)


@cache
def _version(tool: Path) -> str | None:
    return version_of(tool)


def _assemble(
    tool: Path, options: tuple[str, ...], ptx: bytes, target: str, cache: DerivedCache
) -> tuple[str, bytes] | None:
    stamp = tool.stat()
    key = cache.key(
        "ptxas", str(tool), str(stamp.st_mtime_ns), str(stamp.st_size), *options, target, ptx
    )
    messages, cubin = cache.get(cache.key(key, "text")), cache.get(cache.key(key, "cubin"))
    if cubin == _REFUSED:
        return None
    if messages is not None and cubin is not None:
        return messages.decode("utf-8", "replace"), cubin
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        file, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        file.write_bytes(ptx)
        try:
            done = run_tool(
                [tool, "-v", *options, f"--gpu-name={target}", file, "-o", out], seconds=300
            )
        except PtxviewError:
            return None
        if done.status != 0 or not out.is_file():
            if done.status > 0:  # an assembler that was killed may succeed the next time
                cache.put(cache.key(key, "cubin"), _REFUSED)
            return None
        messages, cubin = done.err + done.out, files.read(out)
    cache.put(cache.key(key, "cubin"), cubin)
    cache.put(cache.key(key, "text"), messages)
    return messages.decode("utf-8", "replace"), cubin
