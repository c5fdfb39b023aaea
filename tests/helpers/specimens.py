"""Real listings: compiled kernels of the repository's data, disassembled where need be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inspector.base.model import Stage
from tests.helpers.samples import disassemble

DATA = Path(__file__).parents[1] / "data"

SPECIMENS: dict[str, tuple[Stage, str]] = {
    "matmul.ptx": (Stage.PTX, "parsers/matmul_sm90.ptx"),
    "gelu.ptx": (Stage.PTX, "parsers/gelu_sm90.ptx"),
    "nested.ptx": (Stage.PTX, "parsers/nested.ptx"),
    "matmul.sass": (Stage.SASS, "parsers/matmul_sm90.cubin"),
    "gelu.sass": (Stage.SASS, "parsers/gelu_sm90.cubin"),
    "zoo.sass": (Stage.SASS, "parsers/zoo_sm90.cubin"),
    "matmul.ttir": (Stage.TTIR, "parsers/matmul_sm90.ttir"),
    "matmul.ttgir": (Stage.TTGIR, "parsers/matmul_sm90.ttgir"),
    "layer_norm.ttgir": (Stage.TTGIR, "parsers/layer_norm_sm90.ttgir"),
    "matmul.llir": (Stage.LLIR, "parsers/matmul_sm90.llir"),
    "gelu.llir": (Stage.LLIR, "parsers/gelu_sm90.llir"),
}


@cache
def text_of(name: str) -> str:
    """The text of a specimen: of a cubin, what nvdisasm says."""
    path = DATA / SPECIMENS[name][1]
    if path.suffix != ".cubin":
        return path.read_text()
    return disassemble(path.name, "-c")
