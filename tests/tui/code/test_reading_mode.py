"""Reading mode: folds, their replacements, and that nothing is lost.

Checked by the recorded file: LLVM writes the location behind each ``.loc``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from textual.pilot import Pilot

from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.parsers.line import Listing
from inspector.system.toolchain import need
from inspector.tui.app.app import PtxviewApp
from inspector.tui.code.code_rows import Fold, RowMap, regions
from inspector.tui.code.code_view import CodeView
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import settle
from tests.helpers.samples import said_of
from tests.helpers.shared_app import lecture_app

MARKS = (".loc", "$L__tmp", "$L__func_begin", "$L__func_end", "// begin inline", "// end inline")


def ptx_of(name: str) -> Listing:
    """The PTX of the first variant of a kernel of the lecture."""
    reads = open_reader(str(SAMPLE))
    kernel = next(k for k in reads.recording.kernels if name in k.name)
    return reads.stages.listing(kernel.variants[0], Stage.PTX)


async def opened(pilot: Pilot[None], name: str, stage: str) -> CodeView:
    """One stage of a kernel, alone and without the tree."""
    await settle(pilot)
    screen = await settle(pilot, "slash", *name, "enter", "b", "tab", stage, "z")
    await settle(pilot)
    return screen.panes.active.view


def shown(view: CodeView) -> dict[int, str]:
    """The rows on the screen by the number of their line."""
    laid = view.laid()
    return {n: view.render_line(y).text for y, (n, _) in enumerate(laid)}


@pytest.mark.parametrize("name", ["matmul_kernel", "softmax_kernel"])
def test_marks_and_nothing_else_are_folded(name: str) -> None:
    listing = ptx_of(name)
    texts = [line.text for line in listing.lines]
    folds = regions(listing)
    rows = RowMap(len(texts), folds[Fold.MARKS])
    kept = [rows.line(row) for row in range(rows.rows)]
    directives = {n for r in folds[Fold.PREAMBLE] for n in range(r.first, r.last + 1)}
    assert kept == [
        n for n, t in enumerate(texts, 1) if n in directives or not t.strip().startswith(MARKS)
    ]
    function = listing.functions[0]
    inside = range(function.first, function.last + 1)
    assert len(set(inside) - set(kept)) > 0.18 * len(inside)
    for n in range(1, len(texts) + 1):
        assert rows.line(rows.row(n)) == min(k for k in kept if k >= n)


async def test_the_right_edge_says_what_llvm_wrote_behind_the_loc() -> None:
    async with lecture_app.run_test(size=(160, 48)) as pilot:
        view = await opened(pilot, "softmax", "6")
        assert view.source is not None
        texts = view.source.texts
        checked = inlined = 0
        for _ in range(6):
            await pilot.press("pagedown")
            for n, row in shown(view).items():
                above = texts[n - 2].lstrip()
                if n > 1 and texts[n - 1] and above.startswith(".loc"):
                    said = above.partition("//")[2].strip(" ]").split(" @[ ")
                    assert said[0] in row or above.split()[2] == "0", (n, row)
                    assert len(said) == 1 or said[1] in row or f" {said[0]}" in row
                    checked += 1
                    inlined += len(said) > 1 and said[1] in row
        assert checked > 10
        assert inlined > 0


async def test_a_search_finds_and_opens_what_is_folded_and_copies_are_the_files() -> None:
    app = PtxviewApp(open_reader(str(SAMPLE)))
    async with app.run_test(size=(160, 48)) as pilot:
        view = await opened(pilot, "matmul", "6")
        assert view.source is not None
        await settle(pilot, "slash", *"begin inline", "enter")
        first = next(n for n, t in enumerate(view.source.texts, 1) if "begin inline" in t)
        assert view.cursor == first
        assert view.map.shown(first) == first
        assert "begin inline asm" in shown(view)[first]
        await settle(pilot, "slash", *(["backspace"] * 12), *"_param_3", "enter")
        declared = view.source.texts[view.cursor - 1]
        assert "matmul_kernel_param_3" in declared
        assert "matmul_kernel_param_3" in shown(view)[view.cursor]
        await pilot.press("y")
        assert app.clipboard == declared


async def test_parameters_are_called_what_the_program_calls_them() -> None:
    async with lecture_app.run_test(size=(160, 48)) as pilot:
        view = await opened(pilot, "softmax", "6")
        assert view.source is not None
        loads = {
            view.source.texts[n - 1].partition("_param_")[2][0]: row
            for n, row in shown(view).items()
            if "ld.param" in view.source.texts[n - 1]
        }
        # As the Python beside it has them, in the order of its signature.
        names = ("output_ptr", "input_ptr", "input_row_stride", "output_row_stride", "n_cols")
        assert len(loads) == len(names)
        for index, name in enumerate(names):
            assert f"[…{name}]" in loads[str(index)]


def named_in_mlir(texts: Sequence[str]) -> dict[str, str]:
    """What the aliases of MLIR's simple locations are: ``#loc3`` is ``matmul.py:80:19``."""
    simple = re.compile(r'(#loc\d*) = loc\("[^"]*?([^"/]+)":(\d+):(\d+)\)')
    every = (simple.match(text) for text in texts)
    return {m[1]: f"{m[2]}:{m[3]}:{m[4]}" for m in every if m}


def named_in_llvm(texts: Sequence[str]) -> dict[str, str]:
    """What the nodes of LLVM's locations in the kernel itself are, by number."""
    simple = re.compile(r"(!\d+) = !DILocation\(line: (\d+), column: (\d+), scope: !4\)")
    file = next(m[1] for text in texts if (m := re.search(r'DIFile\(filename: "([^"]*)"', text)))
    every = (simple.match(text) for text in texts)
    return {m[1]: f"{file}:{m[2]}:{m[3]}" for m in every if m}


@pytest.mark.parametrize(
    ("stage", "named", "mark", "reference"),
    [
        ("3", named_in_mlir, " loc(", r"loc\((#loc\d*)\)\Z"),
        nightly("4", named_in_mlir, " loc(", r"loc\((#loc\d*)\)\Z"),
        ("5", named_in_llvm, "!dbg", r"!dbg (!\d+)"),
    ],
)
async def test_ir_has_its_places_at_the_right_edge_and_w_has_them_in_the_text(
    stage: str, named: Callable[[Sequence[str]], dict[str, str]], mark: str, reference: str
) -> None:
    async with PtxviewApp(open_reader(str(SAMPLE))).run_test(size=(220, 60)) as pilot:
        view = await opened(pilot, "softmax", stage)
        assert view.source is not None
        texts = view.source.texts
        places = named(texts)
        checked, before = 0, ""
        for n, row in shown(view).items():
            own = re.search(reference, texts[n - 1])
            # What ends an operation has its place, which stands where it begins.
            ends = texts[n - 1].strip().startswith("}")
            place = places.get(own[1], "") if own and not ends else ""
            assert mark not in row or texts[n - 1].startswith("#"), row
            if place and before and place != before and len(texts[n - 1]) < 150:
                assert (
                    row.rstrip().rstrip("▁▂▃▄▅▆▇█◂▴▐◆").rstrip().endswith(place.removesuffix(":0"))
                )
                checked += 1
            before = place
        assert checked >= 3
        await settle(pilot, "w")
        rows = shown(view)
        assert sum(mark in row for row in rows.values()) > 5
        assert all(texts[n - 1].strip()[:100] in row for n, row in rows.items())


async def test_parameters_of_sass_are_called_what_the_program_calls_them() -> None:
    """Judged by the cubin as cuobjdump reads it, and by the signature in the Python."""
    reads = open_reader(str(SAMPLE))
    kernel = next(k for k in reads.recording.kernels if k.name == "softmax_kernel")
    names = ("output_ptr", "input_ptr", "input_row_stride", "output_row_stride", "n_cols")
    with TemporaryDirectory() as folder:
        cubin = Path(folder) / "x.cubin"
        cubin.write_bytes(kernel.variants[0].stages[Stage.SASS].content.read())
        told = said_of(cubin, need("cuobjdump").path, "-elf").decode()
    base = re.search(r"PARAM_CBANK\s+Format:.*\s+Value:\s+0x\w+ 0x\w{4}(\w{4})\s", told)
    base = base or re.search(r"PARAM_CBANK\s+Format:.*\s+Value:\s+0x\w+ 0x\w*?(\w{3})\s", told)
    assert base
    rows = re.findall(r"Ordinal : (0x\w+)\s+Offset\s+: (0x\w+)\s+Size\s+: (0x\w+)", told)
    by_place = {
        hex(int(base[1], 16) + int(offset, 16)): names[int(ordinal, 16)]
        for ordinal, offset, _ in rows
        if int(ordinal, 16) < len(names)
    }
    assert len(by_place) == len(names)
    async with PtxviewApp(reads).run_test(size=(160, 60)) as pilot:
        view = await opened(pilot, "softmax", "7")
        assert view.source is not None
        await settle(pilot)
        read = set()
        for _ in range(6):
            for n, row in shown(view).items():
                for at in re.findall(r"c\[0x0\]\[(0x\w+)\]", view.source.texts[n - 1]):
                    if at in by_place:
                        assert f"c[…{by_place[at]}]" in row
                        read.add(at)
                    else:
                        assert f"c[0x0][{at}]" in row
            await pilot.press("pagedown")
        assert len(read) >= 4
        await settle(pilot, "home", "w")
        assert not any("c[…" in row for row in shown(view).values())
