"""Whose time a compile took: each moment is one part's, and rows cost what they hold."""

from inspector.base.model import CompilePhase, FrameCompile, KernelCompile, Recording
from inspector.reader.tables import table
from inspector.render import compiles
from inspector.render.compile_rows import compiles_row
from inspector.render.compiles import bars, by_part, timeline_rows
from inspector.render.jsons import pick_fields

PHASES = table("compile_phases")


def frame(began: float, *phases: tuple[str, float, float, int]) -> FrameCompile:
    spans = tuple(CompilePhase(n, b, s, d) for n, b, s, d in phases)
    return FrameCompile("0/0", process=1, began=began, seconds=phases[0][2], phases=spans)


def test_each_moment_is_the_innermost_parts() -> None:
    one = frame(
        10.0,
        ("dynamo", 10.0, 8.0, 0),
        ("nobody knows", 11.0, 1.0, 1),
        ("create_aot_dispatcher_function", 12.0, 5.0, 1),
        ("inductor_compile", 13.0, 3.0, 2),
    )
    kernel = KernelCompile("k", "triton", 1, 14.0, 1.0, (("ttir", 0.25), ("cubin", 0.5)))
    rows = timeline_rows(
        Recording("r", (), frame_compiles=(one,), kernel_compiles=(kernel,)), PHASES
    )
    (row,) = rows
    assert by_part(row.stretches) == {
        "Dynamo": 3.0,
        "AOTAutograd": 2.0,
        "Inductor": 2.0,
        "Triton": 0.5,
        "ptxas": 0.5,
    }
    assert bars(rows, 16) == ["DDDDAAIITpIIAADD"]


def test_kernels_outside_of_compiles_and_builds_have_rows_and_gaps_take_no_room() -> None:
    early = KernelCompile("k", "triton", 1, 1.0, 1.0, (("cubin", 0.5),), False, "a")
    cached = KernelCompile("k", "triton", 2, 2.0, 0.1, (), True, "a")
    build = KernelCompile("/x/ext", "nvcc", 1, 5000.0, 2.0, (("a.o", 2.0),), False)
    rec = Recording("r", (), kernel_compiles=(early, cached, build))
    rows = timeline_rows(rec, PHASES)
    assert bars(rows, 12) == ["TTpp", "    nnnnnnnn"]
    text = "\n".join(line.text.plain for line in compiles.lines(rec, PHASES, {}, 60))
    assert "1 build of extensions in 2.00 s" in text and "Triton 1 miss" in text
    assert "triton k" in text and "nvcc ext" in text


def test_what_torch_told_no_phases_of_is_no_time_made_up() -> None:
    rec = Recording("r", (), frame_compiles=(FrameCompile("0/0", function="f", file="/m.py"),))
    assert timeline_rows(rec, PHASES)[0].stretches == ()
    value = pick_fields(compiles_row(rec, PHASES))
    assert (value["seconds"], value["phases"]) == (None, {})
    assert "–" in next(
        line.text.plain
        for line in compiles.lines(rec, PHASES, {}, 80)
        if "0/0 f" in line.text.plain
    )
