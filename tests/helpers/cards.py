"""Listings and launches that the tests of the card are made of."""

from __future__ import annotations

from pathlib import Path

from inspector import parsers as parsers
from inspector.base.model import Argument, Call, Stage
from inspector.parsers.line import Function, Listing
from inspector.recording.layout import DerivedCache
from inspector.sources.disassembly import disassemble

DATA = Path(__file__).parents[1] / "data"
TRITON = DATA / "core" / "lecture" / "triton"
SQUARE = next(TRITON.glob("QGNHRXZL*"))
MATMUL = next(TRITON.glob("62IEO2LA*"))


def ptx(text: str) -> tuple[Listing, Function]:
    whole = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry f(.param .u64 p)\n{\n"
    listing = parsers.parse(Stage.PTX, whole + text + "\n\tret;\n}\n")
    return listing, listing.functions[0]


def ttir(text: str) -> tuple[Listing, Function]:
    body = f"module {{\n  tt.func public @f(%x: !tt.ptr<f32>, %n: i32) {{\n{text}\n  }}\n}}\n"
    listing = parsers.parse(Stage.TTIR, body)
    return listing, listing.functions[0]


def stage(folder: Path, ending: str, cache: DerivedCache) -> tuple[Listing, Function]:
    file = next(folder.glob(f"*.{ending}"))
    if ending == "cubin":
        plain, annotated, _ = disassemble(file.read_bytes(), cache)
        listing = parsers.parse(Stage.SASS, plain, annotated=annotated)
    else:
        listing = parsers.parse(Stage(ending), file.read_text("utf-8"))
    return listing, listing.functions[0]


def launch(grid: int, block: int, *arguments: Argument) -> Call:
    return Call("triton", "k", None, (grid, 1, 1), (block, 1, 1), 0, arguments)


def tensor(*shape: int, dtype: str = "float32", strides: tuple[int, ...] | None = None) -> Argument:
    return Argument("t", "*fp32", dtype=dtype, shape=shape, strides=strides)
