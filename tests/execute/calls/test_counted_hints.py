"""Hints of what happened: kernels whose accesses, branches and lanes are known by construction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest

from inspector.analysis.hints.access import with_executed
from inspector.analysis.hints.subject import ExecutedFacts, HintSubject
from inspector.base.model import Stage
from inspector.execute import Program
from inspector.execute.calls.inputs import InputOptions, make_inputs
from inspector.execute.calls.tracing import TraceLaunch, trace_launch
from inspector.render.pictures.bank_picture import MAX_ROWS
from tests.execute.calls.programs import kernel, written
from tests.helpers.hint_data import THRESHOLDS, findings, pairs
from tests.helpers.ptxview import SAMPLE, call

RECORDING = str(SAMPLE)
INDUCTOR = "triton_per_fused__softmax*"
N = 32
TWO = ".param .u64 x, .param .u64 y"
LOAD_Y = "    ld.param.u64 %rd3, [y];\n    add.s64 %rd4, %rd3, %rd2;\n"


def traced(folder: Path, text: str, *more: str, **arrays: Any) -> dict[str, Any]:
    """``trace --json`` of a kernel, by its rules: a rule is seen once."""
    ptx, inputs = written(folder, text, **arrays)
    done = call("trace", ptx, "k", "--inputs", inputs, "--json", *more)
    told = done.json
    rules = {hint["rule"]: hint for hint in told["hints"]}
    assert len(rules) == len(told["hints"])
    return {"rules": rules, "lines": {one["n"]: one for one in told["lines"]}, "told": told}


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if part in line)


def copied(turned: bool) -> str:
    """A 32 by 32 copy, a warp a row; turned, a warp writes a column."""
    place = "mad.lo.s32 %r5, %r1, 32, %r0;" if turned else "mad.lo.s32 %r5, %r0, 32, %r1;"
    return kernel(
        f"{LOAD_Y}    ld.global.f32 %f1, [%rd1];\n    {place}\n    mul.wide.s32 %rd5, %r5, 4;\n"
        "    add.s64 %rd6, %rd3, %rd5;\n    st.global.f32 [%rd6], %f1;",
        TWO,
    )


LAUNCH = ("--grid", str(N), "--threads", str(N))
SQUARE = {"x": np.ones(N * N, np.float32), "y": np.zeros(N * N, np.float32)}


def test_a_transposed_copy_is_scattered_where_it_writes(tmp_path: Path) -> None:
    text = copied(turned=True)
    told = traced(tmp_path, text, *LAUNCH, **SQUARE)
    (rule,) = told["rules"]
    hint = told["rules"][rule]
    assert rule == "uncoalesced-layout" and hint["severity"] == "warn"
    assert hint["lines"] == [line_of(text, "st.global")]
    # Each of 32 warps writes 32 sectors, where 4 would do.
    assert "1,024 sectors of 32 bytes for data that fill 128, 32 a request" in hint["text"]
    assert hint["blocks"] == {"run": 32, "of": 32} and hint["estimated"] is False
    assert not traced(tmp_path, copied(turned=False), *LAUNCH, **SQUARE)["rules"]


def test_neighbouring_words_loaded_one_by_one_are_not_scattered(tmp_path: Path) -> None:
    """Each load alone touches 16 sectors for 4; together they leave nothing out."""
    loads = "\n".join(f"    ld.global.f32 %f{k + 1}, [%rd5+{4 * k}];" for k in range(4))
    text = kernel(f"    mul.wide.s32 %rd4, %r3, 16;\n    add.s64 %rd5, %rd0, %rd4;\n{loads}")
    told = traced(tmp_path, text, "--grid", "8", "--threads", "32", x=np.ones(1024, np.float32))
    line = told["lines"][line_of(text, "ld.global")]
    assert line["sectors"] == 4 * line["least_sectors"]
    assert not told["rules"]


def tile(width: int) -> str:
    """A warp writes rows of a tile in shared memory and reads a column of it, 32 times."""
    return kernel(
        f"""    cvta.to.shared.u64 %rd3, tile;
    mul.lo.s32 %r5, %r1, {4 * width};
    mov.u32 %r6, tile;
    add.s32 %r7, %r6, %r5;
    mov.u32 %r8, 0;
    ld.global.f32 %f1, [%rd1];
again:
    ld.shared.f32 %f2, [%r7];
    add.f32 %f1, %f1, %f2;
    add.s32 %r7, %r7, 4;
    add.s32 %r8, %r8, 1;
    setp.lt.s32 %p1, %r8, 32;
    @%p1 bra again;
    st.global.f32 [%rd1], %f1;""".replace("    cvta.to.shared.u64 %rd3, tile;\n", ""),
        before=f".shared .align 16 .b8 tile[{4 * 32 * width}];",
    )


@pytest.mark.parametrize(("width", "times"), [(32, 32), (33, 1), (36, 4), (40, 8)])
def test_a_column_of_a_tile_conflicts_unless_it_is_padded(
    tmp_path: Path, width: int, times: int
) -> None:
    text = tile(width)
    told = traced(tmp_path, text, "--grid", "3", "--threads", "32", x=np.ones(96, np.float32))
    line = told["lines"][line_of(text, "ld.shared")]
    assert line["wavefronts"] == times * line["least_wavefronts"]
    pictures = told["told"]["pictures"]
    if times == 1:
        assert not told["rules"] and not pictures
        return
    (picture,) = pictures
    columns = [cell["column"] for cell in picture["cells"]]
    drawn = min(times, MAX_ROWS)
    assert columns == sorted(set(columns)) * drawn and len(set(columns)) == 32 // times
    # A lane further down a column of the tile is `width` words further on.
    by_place = {(c["row"], c["column"]): int(c["text"]) for c in picture["cells"]}
    assert all(lane * width % 32 == bank for (_, bank), lane in by_place.items())
    (hint,) = told["rules"].values()
    assert hint["rule"] == "bank-conflicts" and hint["lines"] == [line_of(text, "ld.shared")]
    assert f"{96 * times:,} wavefronts where 96 would do, {times} times" in hint["text"]


def halves(branch: bool, lanes: int) -> str:
    work = "\n".join(
        f"    {'' if branch else '@%p1 '}fma.rn.f32 %f1, %f1, %f1, %f1;" for _ in "abcd"
    )
    store = "st.global.f32 [%rd1], %f1;"
    if branch:
        body = f"    @!%p1 bra out;\n    ld.global.f32 %f1, [%rd1];\n{work}\n    {store}\nout:"
    else:
        body = f"    @%p1 ld.global.f32 %f1, [%rd1];\n{work}\n    @%p1 {store}"
    return kernel(f"    setp.lt.u32 %p1, %r1, {lanes};\n{body}")


def test_half_a_warp_without_work(tmp_path: Path) -> None:
    x = np.ones(4 * 32, np.float32)
    launch = ("--grid", "4", "--threads", "32")
    text = halves(branch=True, lanes=16)
    told = traced(tmp_path, text, *launch, x=x)
    (hint,) = told["rules"].values()
    assert hint["rule"] == "divergence" and hint["lines"] == [line_of(text, "bra out")]
    assert "the lanes of 4 of 4 warps part" in hint["text"]
    text = halves(branch=False, lanes=16)
    (hint,) = traced(tmp_path, text, *launch, x=x)["rules"].values()
    assert hint["rule"] == "idle-lanes"
    assert hint["lines"] == [line_of(text, "ld.global"), line_of(text, "st.global")]
    assert "16 of a warp's 32 lanes" in hint["text"]
    for branch in (True, False):
        assert not traced(tmp_path, halves(branch, lanes=32), *launch, x=x)["rules"]
    # A block of 48 threads: a quarter of its two warps was never started.
    text, x = halves(branch=True, lanes=48), np.ones(192, np.float32)
    (hint,) = traced(tmp_path, text, "--grid", "4", "--threads", "48", x=x)["rules"].values()
    assert hint["rule"] == "idle-lanes" and "24 of a warp's 32 lanes" in hint["text"]


@pytest.mark.parametrize(
    ("between", "again"),
    [("", True), ("st.global.f32 [%rd1], %f1;", False), ("add.s64 %rd1, %rd1, 128;", False)],
    ids=["the same", "stored between", "the next"],
)
def test_what_a_thread_loads_twice(tmp_path: Path, between: str, again: bool) -> None:
    text = kernel(
        f"    ld.global.f32 %f1, [%rd1];\n    {between}\n    ld.global.f32 %f2, [%rd1]; // twice\n"
        "    add.f32 %f1, %f1, %f2;\n    st.global.f32 [%rd1], %f1;"
    )
    told = traced(tmp_path, text, "--grid", "2", "--threads", "32", x=np.ones(96, np.float32))
    if not again:
        assert not told["rules"]
        return
    (hint,) = told["rules"].values()
    assert hint["rule"] == "redundant-loads" and hint["lines"] == [line_of(text, "// twice")]
    assert "64 of 128 loads of lanes" in hint["text"]


def test_a_launch_that_ends_in_a_fault_has_no_hints(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, copied(turned=True), **{**SQUARE, "y": np.zeros(9, "f4")})
    done = call("trace", ptx, "k", "--inputs", inputs, *LAUNCH, "--json")
    assert done.status == 1 and json.loads(done.out)["hints"] == []


def counted(subject: HintSubject) -> tuple[ExecutedFacts, set[str]]:
    """A recorded call of a specimen, run; the rules of what was counted alone."""
    launch = subject.launch
    assert launch is not None and launch.grid is not None and subject.block is not None
    program = Program(subject.listings[Stage.PTX], subject.variant.symbol)
    inputs = launch.arguments
    names = tuple(p.name for p in program.parameters)
    shared = subject.resources.dynamic_shared_bytes or 0
    done = trace_launch(
        program,
        TraceLaunch(launch.grid, subject.block, shared),
        lambda: make_inputs(program, names, inputs, InputOptions(most_bytes=1 << 30)),
        cheap=1_000_000,
        values=False,
    )
    facts = done.executed
    assert facts is not None
    found = with_executed(msgspec.structs.replace(subject, executed=facts), (), THRESHOLDS)
    assert all(one.blocks == (facts.ran, facts.launched) for one in found)
    return facts, {one.rule for one in found}


COUNTED = {"uncoalesced-layout", "bank-conflicts"}


@pytest.mark.parametrize(
    ("name", "config", "wanted"),
    [
        ("scale_kernel", {"num_warps": 4, "columns": 1024}, set()),
        ("scale_kernel", {"num_warps": 4, "columns": "strided"}, {"uncoalesced-layout"}),
        ("dot_kernel", {"PRECISION": "tf32", "TURNED": False}, set()),
        ("dot_kernel", {"PRECISION": "tf32", "TURNED": True}, {"bank-conflicts"}),
        ("crowded", {"num_warps": 16}, set()),
        ("row_sums_after", {}, set()),
    ],
    ids=["rows", "strided", "product", "turned product", "wide", "sums"],
)
def test_compiled_kernels_and_their_twins(
    name: str, config: dict[str, object], wanted: set[str]
) -> None:
    """What is counted is what is guessed of the same kernel, where the guess is right."""
    _, found = counted(pairs(name, **config))
    assert found & COUNTED == wanted


def test_what_was_counted_is_in_place_of_the_guess() -> None:
    subject = pairs("scale_kernel", num_warps=4, columns="strided")
    facts, _ = counted(subject)
    (guess,) = [f for f in findings(subject).values() if f.rule == "uncoalesced-layout"]
    assert guess.estimated and guess.blocks is None
    (one,) = [
        f
        for f in findings(msgspec.structs.replace(subject, executed=facts)).values()
        if f.rule == "uncoalesced-layout"
    ]
    assert one.blocks == (facts.ran, facts.launched) and not one.estimated
    # Nothing scattered was seen in a launch of the twin: the guess is gone, too.
    calm, _ = counted(pairs("scale_kernel", num_warps=4, columns=1024))
    assert "uncoalesced-layout" not in findings(msgspec.structs.replace(subject, executed=calm))


def test_show_reports_counts_and_where_it_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = _notes()
    assert "divergence" not in before, "showing runs nothing"
    assert before["masked-lanes"]["estimated"] is True
    assert before["masked-lanes"]["blocks"] is None
    text = call("show", RECORDING, INDUCTOR, "-a", "--execute").text
    assert "divergence" in text and "counted in" in text and "a guess from the code" in text
    # It is kept: the next look has it, on its lines too, and runs nothing.
    after = _notes()
    assert after["divergence"]["blocks"]["run"] < after["divergence"]["blocks"]["of"] == 1823
    assert after["masked-lanes"]["estimated"] is True
    shown = call("show", RECORDING, INDUCTOR, "--json").json
    marked = [
        line for line in shown["lines"] if any(n["rule"] == "divergence" for n in line["notes"])
    ]
    assert marked and all(line["base"] == "bra" for line in marked)


def _notes() -> dict[str, Any]:
    shown = call("show", RECORDING, INDUCTOR, "--json").json
    return {note["rule"]: note for note in shown["functions"][0]["notes"]}


def test_execute_needs_something_to_tell(tmp_path: Path) -> None:
    done = call("show", RECORDING, "softmax_kernel", "--execute")
    assert done.status == 2 and "-a or --json" in done.said
    done = call("show", RECORDING, "_Z11gelu_kernelPKfPfi", "-a", "--execute")
    assert done.status == 2 and "no launch" in done.said
