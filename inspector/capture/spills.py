"""Spilled bytes and barriers: from the cubin's own records, else from ``ptxas -v``.

A kernel spills to local memory, which is on its stack, or to shared memory, which the cubin has on
record: one with neither has spilled nothing. Where there is some, ``ptxas -v`` is asked, on the
recorded PTX, where it is the same assembler. "The same" is proved, not assumed: the machine code
that it writes must equal the recorded one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from inspector import files
from inspector.capture.disassembly import usage_text
from inspector.capture.nvcc import same_code
from inspector.errors import PtxviewError
from inspector.listing.cubin import Cubin, function_records, read_cubin
from inspector.model import Resources, Stage, Variant
from inspector.recording.layout import DerivedCache
from inspector.recording.resources import from_ptxas, without_local_memory
from inspector.system.process import run_tool
from inspector.system.toolchain import every, version_of

# Triton's own options, by version: 3.9 gives the register allocator's level, all give lines
# unless they are told not to, and fused multiply-add is the kernel's choice.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-lineinfo",),
    ("-lineinfo", "--regAllocOptLevel=2"),
    ("-lineinfo", "--fmad=false"),
    ("-lineinfo", "--fmad=false", "--regAllocOptLevel=2"),
    (),
)
# Kept in the place of machine code that an assembler would not make; no cubin begins so.
_REFUSED = b"\0ptxas would not"


def assemblers(folders: Iterable[str | None]) -> list[Path]:
    """Every ptxas in folders of triton packages, then those that the toolchain finds."""
    found = [path for folder in folders if folder for path in _of_triton(folder)]
    found += [t.path for t in every("ptxas")]
    return list(dict.fromkeys(found))


def _of_triton(folder: str) -> list[Path]:
    binaries = Path(folder) / "backends" / "nvidia" / "bin"
    return [p for p in sorted(binaries.glob("ptxas*")) if p.is_file()]


def versions(folder: str | None) -> dict[str, str]:
    """The versions of the assemblers in a folder of a triton package, by file name."""
    named = {p.name: _version(p) for p in _of_triton(folder)} if folder else {}
    return {name: version for name, version in named.items() if version is not None}


def on_record(cubin: bytes, usage: str) -> dict[str, Resources]:
    """Barriers of each function, and that one without any memory to spill to has spilled nothing.

    ``usage`` is what ``cuobjdump -res-usage`` prints of the cubin. The kernels' figures are those
    that ``ptxas -v`` printed when it made it; functions that they call may differ.
    """
    clean = without_local_memory(usage)
    return {
        name: Resources(spill_store_bytes=0, spill_load_bytes=0, barriers=record.barriers)
        if name in clean and record.linked and not record.shared_scratch
        else Resources(barriers=record.barriers)
        for name, record in function_records(cubin).items()
    }


def of_variant(variant: Variant, tools: Sequence[Path], kept: DerivedCache) -> dict[str, Resources]:
    """Spills and barriers for a variant: on record, else what ``measure`` finds.

    Empty where its cubin, or the PTX that it would take, is not at hand.
    """
    sass = variant.stages.get(Stage.SASS)
    if sass is None:
        return {}
    try:
        cubin = sass.content.read()
        known = on_record(cubin, usage_text(cubin, kept)).get(variant.symbol)
    except (PtxviewError, OSError):
        known = None
    if known is not None and known.spill_store_bytes is not None:
        return {variant.symbol: known}
    return assembled(variant, tools, kept)


def assembled(variant: Variant, tools: Sequence[Path], kept: DerivedCache) -> dict[str, Resources]:
    """What ``measure`` finds for a variant; empty where its PTX or its cubin is not at hand."""
    ptx, sass = variant.stages.get(Stage.PTX), variant.stages.get(Stage.SASS)
    if ptx is None or ptx.costly or sass is None or variant.target is None:
        return {}
    try:
        return measure(ptx.content.read(), sass.content.read(), variant.target, tools, kept)
    except (PtxviewError, OSError):
        return {}


def measure(
    ptx: bytes, cubin: bytes, target: str, tools: Sequence[Path], kept: DerivedCache
) -> dict[str, Resources]:
    """Spills and barriers by function; empty where no assembler at hand makes the same code."""
    built = read_cubin(cubin)
    if built is None:
        return {}
    for tool in tools:
        if not _may_be(built, tool):
            continue
        for options in OPTIONS:
            printed = _assemble(tool, options, ptx, target, kept)
            if printed is None:
                # An assembler that does not take the PTX at all is not asked again; one that does
                # not know an option may take the next.
                if options == OPTIONS[0]:
                    break
                continue
            text, made = printed
            if same_code(built, read_cubin(made)):
                return from_ptxas(text)
    return {}


def _may_be(built: Cubin, tool: Path) -> bool:
    """Whether a cubin may be this assembler's: the version that it names, else its ELF ABI's."""
    version = _version(tool)
    if version is None or built.ptxas is not None:
        return version == built.ptxas
    # ABI 7 is CUDA 12's and names no version; ABI 8 came with CUDA 13.
    return (int(version.split(".")[0]) < 13) == (built.abi < 8)


@cache
def _version(tool: Path) -> str | None:
    return version_of(tool)


def _assemble(
    tool: Path, options: tuple[str, ...], ptx: bytes, target: str, kept: DerivedCache
) -> tuple[str, bytes] | None:
    stamp = tool.stat()
    key = kept.key(
        "ptxas", str(tool), str(stamp.st_mtime_ns), str(stamp.st_size), *options, target, ptx
    )
    said, made = kept.get(kept.key(key, "text")), kept.get(kept.key(key, "cubin"))
    if made == _REFUSED:
        return None
    if said is not None and made is not None:
        return said.decode("utf-8", "replace"), made
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
            if done.status > 0:  # one that was killed may do better the next time
                kept.put(kept.key(key, "cubin"), _REFUSED)
            return None
        said, made = done.err + done.out, files.read(out)
    kept.put(kept.key(key, "cubin"), made)
    kept.put(kept.key(key, "text"), said)
    return said.decode("utf-8", "replace"), made
