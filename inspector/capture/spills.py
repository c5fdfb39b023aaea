"""Spilled bytes and barriers: ``ptxas -v`` on the recorded PTX, where it is the same assembler.

"The same" is proved, not assumed: the machine code that it writes must equal the recorded one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.analyse.resources import from_ptxas
from inspector.capture.elf import read_cubin
from inspector.capture.nvcc import same_code
from inspector.errors import PtxviewError
from inspector.model import Resources
from inspector.process import run_tool
from inspector.recording import DerivedCache

# Triton's own options, by version: with line information, with or without fused multiply-add.
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-lineinfo",),
    (),
    ("-lineinfo", "--fmad=false"),
    ("--fmad=false",),
)


def assemblers(folders: Iterable[str | None]) -> list[Path]:
    """Every ptxas in folders of triton packages, then those that the toolchain finds."""
    from inspector.toolchain import every

    found: list[Path] = []
    for folder in folders:
        if folder:
            binaries = Path(folder) / "backends" / "nvidia" / "bin"
            found += [p for p in sorted(binaries.glob("ptxas*")) if p.is_file()]
    found += [t.path for t in every("ptxas")]
    return list(dict.fromkeys(found))


def measure(
    ptx: bytes, cubin: bytes, target: str, tools: Sequence[Path], cache: DerivedCache
) -> dict[str, Resources]:
    """Spills and barriers by function; empty where no assembler at hand makes the same code."""
    built = read_cubin(cubin)
    if built is None:
        return {}
    for tool in tools:
        for options in OPTIONS:
            printed = _assemble(tool, options, ptx, target, cache)
            if printed is None:
                # This assembler does not take the PTX at all; other options will not help.
                break
            text, made = printed
            if same_code(built, read_cubin(made)):
                return from_ptxas(text)
    return {}


def _assemble(
    tool: Path, options: tuple[str, ...], ptx: bytes, target: str, cache: DerivedCache
) -> tuple[str, bytes] | None:
    stamp = tool.stat()
    key = cache.key(
        "ptxas", str(tool), str(stamp.st_mtime_ns), str(stamp.st_size), *options, target, ptx
    )
    said, made = cache.get(cache.key(key, "text")), cache.get(cache.key(key, "cubin"))
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
            return None
        said, made = done.err + done.out, out.read_bytes()
    cache.put(cache.key(key, "cubin"), made)
    cache.put(cache.key(key, "text"), said)
    return said.decode("utf-8", "replace"), made
