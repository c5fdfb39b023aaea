"""Which programs made a variant, and of which version: as recorded, and as its stages say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.errors import PtxviewError
from inspector.listing.cubin import Cubin, read_cubin
from inspector.model import Origin, Stage, Variant

__all__ = ["made_by"]

TRITON = (Origin.TRITON, Origin.INDUCTOR)
HEAD = 4096
"""Bytes of PTX in which its compiler names itself; what declares its version is there, too."""
_ISA = re.compile(rb"^[^\S\n]*+\.version\s++(\d++\.\d++)", re.MULTILINE)
_NVCC = re.compile(rb"^// Cuda compilation tools, release [\d.]++, V([\d.]++)", re.MULTILINE)


def made_by(tools: Mapping[str, str], origin: Origin, variant: Variant) -> dict[str, str]:
    """The programs that made a variant, with their versions if known.

    Those of Triton and torch are recorded with it, in a recording made before that with all of it;
    nvcc's, or of NVIDIA's compiler where another calls it, is its own line at the head of its PTX.
    Of ptxas it is the cubin's own note, which CUDA 13's writes, else the recording's where Triton
    has one assembler for all. The ISA is PTX's.
    """
    own = {**variant.made_by}
    if (version := variant.options.get("triton_version")) is not None:
        own["triton"] = str(version)
    out: dict[str, str] = {}
    for name, of in (("torch", (Origin.INDUCTOR,)), ("triton", TRITON)):
        if origin in of and (version := own.get(name) or tools.get(name)):
            out[name] = version
    sass, ptx = variant.stages.get(Stage.SASS), variant.stages.get(Stage.PTX)
    try:
        cubin = None if sass is None else read_cubin(sass.content.read())
        text = b"" if ptx is None or ptx.costly else ptx.content.read()[:HEAD]
    except (PtxviewError, OSError):
        return out
    if (nvcc := _NVCC.search(text)) is not None:
        # libNVVM and NVRTC write the same line for others.
        out["nvcc" if origin is Origin.NVCC else "CUDA compiler"] = nvcc[1].decode()
    if (isa := _ISA.search(text)) is not None:
        out["PTX ISA"] = isa[1].decode()
    if cubin is not None:
        assembler = cubin.ptxas or assembler_of(tools, origin, cubin)
        out |= {"ptxas": assembler} if assembler else {}
    return out


def assembler_of(tools: Mapping[str, str], origin: Origin, cubin: Cubin) -> str | None:
    """The version of Triton's ptxas that assembled a cubin without a note; None if it is not known.

    ABI 7 is CUDA 12's. Where Triton brings two assemblers that both may have written the file,
    nothing says which.
    """
    if origin not in TRITON:
        return None
    able = {
        version
        for name in ("ptxas", "ptxas-blackwell")
        if (version := tools.get(name)) and _of_cuda_13(version) == (cubin.abi >= 8)
    }
    return able.pop() if len(able) == 1 else None


def _of_cuda_13(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdecimal() and len(major) < 4 and int(major) >= 13
