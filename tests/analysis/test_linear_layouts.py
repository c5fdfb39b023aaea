"""Which thread holds which element, compared with Triton's own layouts."""

import importlib.util
import itertools
import json
import subprocess
import sys
from collections import defaultdict

import pytest

from inspector.analysis.linear_layouts import (
    Attribute,
    Shape,
    TensorLayout,
    aliases,
    encoding_of,
    layout_of_encoding,
    tensor_of,
)
from inspector.parsers.line import Line
from inspector.parsers.mlir import parse_mlir
from inspector.render.pictures.layout_picture import layout_pictures

ORACLE = """
import itertools, json, re, sys
from triton.experimental.gluon import language as gl

def layout(encoding):
    kind = encoding["kind"]
    if kind == "blocked":
        parts = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
        return gl.BlockedLayout(*(encoding[part] for part in parts))
    if kind == "nvidia_mma":
        version = [encoding["versionMajor"], 0]
        return gl.NVMMADistributedLayout(version, encoding["warpsPerCTA"], encoding["instrShape"])
    if kind == "linear":
        bases = [encoding[part] for part in ("register", "lane", "warp")]
        return gl.DistributedLinearLayout(*bases, [], encoding["shape"])
    parent = layout(encoding["parent"])
    if kind == "slice":
        return gl.SliceLayout(encoding["dim"], parent)
    return gl.DotOperandLayout(encoding["opIdx"], parent, encoding["kWidth"])

views = []
for encoding, shape in json.load(sys.stdin):
    text = layout(encoding).format_tensor_view(shape)
    cells = re.findall(r"T[^,\\]\\n]*(?:\\|[^,\\]\\n]*)*", text)
    views.append([sorted({int(n) for n in re.findall(r"T\\s*(\\d+):", cell)}) for cell in cells])
print(json.dumps(views))
"""
"""Threads of each element, in the order of elements, of each encoding and shape."""


def blocked(
    size: list[int], threads: list[int], warps: list[int], order: list[int]
) -> dict[str, object]:
    return {
        "kind": "blocked",
        "sizePerThread": size,
        "threadsPerWarp": threads,
        "warpsPerCTA": warps,
        "order": order,
    }


def mma(version: int, warps: list[int], instruction: list[int]) -> dict[str, object]:
    return {
        "kind": "nvidia_mma",
        "versionMajor": version,
        "warpsPerCTA": warps,
        "instrShape": instruction,
    }


ROWS = blocked([1, 8], [4, 8], [4, 1], [1, 0])
COLUMNS = blocked([4, 1], [32, 1], [1, 4], [0, 1])
MMA2 = mma(2, [2, 2], [16, 8])
MMA3 = mma(3, [4, 2], [16, 32, 16])
LINEAR: dict[str, object] = {
    "kind": "linear",
    "register": [[0, 1], [8, 0]],
    "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]],
    "warp": [[16, 0], [0, 0]],
    "shape": [32, 8],
}
CASES: list[tuple[Attribute, Shape]] = [
    *(
        (encoding, shape)
        for encoding in (ROWS, COLUMNS)
        for shape in ((32, 64), (8, 16), (64, 128))
    ),
    (blocked([4], [32], [4], [0]), (1024,)),
    (blocked([4], [32], [4], [0]), (128,)),
    *(({"kind": "slice", "dim": dim, "parent": ROWS}, (64,)) for dim in (0, 1)),
    *((encoding, shape) for encoding in (MMA2, MMA3) for shape in ((64, 64), (32, 32))),
    ({"kind": "slice", "dim": 1, "parent": MMA3}, (128,)),
    *(({"kind": "dot_op", "opIdx": n, "parent": MMA2, "kWidth": 2}, (64, 64)) for n in (0, 1)),
    *(({"kind": "dot_op", "opIdx": 0, "parent": MMA3, "kWidth": w}, (64, 64)) for w in (2, 4)),
    (LINEAR, (32, 8)),
]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_elements_are_held_by_the_threads_that_triton_says() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORACLE], input=json.dumps(CASES), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    views = json.loads(done.stdout)
    assert len(views) == len(CASES)
    for (encoding, shape), view in zip(CASES, views, strict=True):
        layout = layout_of_encoding(encoding, shape)
        assert layout is not None
        threads: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for warp, lane, register in itertools.product(
            range(1 << len(layout.warps)), range(32), range(1 << len(layout.registers))
        ):
            threads[layout.element(register, lane, warp)].add(32 * warp + lane)
        places = itertools.product(*map(range, shape))
        assert [sorted(threads[place]) for place in places] == view, (encoding, shape)


def lines_of(*texts: str) -> list[Line]:
    return list(parse_mlir("\n".join(texts), "ttgir").lines)


MODULE = (
    "#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], "
    "warpsPerCTA = [2, 1], order = [1, 0]}>",
    "#linear = #ttg.linear<{register = [[0, 1]], lane = [[0, 2]], warp = [], block = [[1, 0]]}>",
    "module {",
    "  %0 = tt.splat %a : f32 -> tensor<16x16xf32, #blocked> loc(#loc1)",
    "  %1 = tt.load %p : tensor<16x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #blocked}>>",
    "}",
)


def test_encodings_are_read_by_their_names_and_nested() -> None:
    lines = lines_of(*MODULE)
    names = aliases(lines)
    assert tensor_of(lines[3]) == TensorLayout((16, 16), "#blocked")
    tensor = tensor_of(lines[4])
    assert tensor is not None and tensor.shape == (16,)
    encoding = encoding_of(tensor.encoding, names)
    assert encoding is not None and encoding["dim"] == 1
    layout = layout_of_encoding(encoding, tensor.shape)
    assert layout is not None and layout.copies == 4


def test_what_is_not_known_has_no_layout() -> None:
    names = aliases(lines_of(*MODULE))
    cluster = encoding_of("#linear", names)
    assert cluster is not None
    assert layout_of_encoding(cluster, (2, 4)) is None
    assert layout_of_encoding({"kind": "amd_mfma"}, (2, 4)) is None
    assert layout_of_encoding({"kind": "blocked"}, (2, 4)) is None
    assert layout_of_encoding(ROWS, (3, 4)) is None
    assert layout_of_encoding(ROWS, (1 << 30, 4)) is None
    assert encoding_of("#absent", names) is None


def test_cells_of_a_picture_are_the_elements_of_one_thread() -> None:
    listing = parse_mlir("\n".join(MODULE), "ttgir")
    first, second = layout_pictures(listing, listing.lines)
    assert first.answer == "16×16 #blocked: a thread holds 4 elements, 4 of them side by side."
    assert first.columns == ["0", "4", "8", "12"] and len(first.rows) == 16
    texts = {(cell.row, cell.column): cell.text for cell in first.cells}
    assert (texts[0, 0], texts[0, 3], texts[1, 0], texts[8, 1]) == ("0:0", "0:3", "0:4", "1:1")
    assert "4 threads hold each" in second.answer
    assert second.notes[-1] == "TTGIR 5"
