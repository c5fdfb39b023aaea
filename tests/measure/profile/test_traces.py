"""Summaries of traces: tables, chains, overhead, links, warnings; traces are made by hand."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from inspector.base.errors import Unreadable
from inspector.base.names import short_name
from inspector.measure.profile.read import (
    facts,
    linked,
    profile_of,
    profiles,
    warned,
    why_none,
    windows,
)
from inspector.measure.profile.trace import Profile, Window, stacks, summarise
from inspector.measure.streams import profile_streams
from inspector.recording.layout import BlobContent, DerivedCache, Writer, read_events
from inspector.render import profile as report
from inspector.render import timeline
from inspector.sources.opening import open_path
from tests.helpers.profile_traces import Made
from tests.helpers.ptxview import SAMPLE

POW = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
    "pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::"
    "{lambda(float)#1}, std::array<char*, 2ul> >(int, std::array<char*, 2ul>)"
)


def of(made: Made, gpu: bool = True) -> Profile:
    return summarise(made.json().encode(), Window(1, "ptxview", "by hand", gpu=gpu))


# -- operators and chains ----------------------------------------------------------------------


def test_who_launched_what_is_a_chain_with_its_times() -> None:
    made = Made()
    made.launched(["aten::square", "aten::pow"], POW, at=0, took=100)
    made.launched(["aten::square", "aten::pow"], POW, at=200, took=120)
    made.launched(["aten::mul"], "mul_kernel", at=400, took=50)
    found = of(made)
    first, second = found.chains
    assert first.path == ("aten::square", "aten::pow")
    assert (first.kernel, first.calls, first.gpu_us) == (POW, 2, 220)
    assert (second.path, second.gpu_us) == (("aten::mul",), 50)
    rows = {o.name: o for o in found.operators}
    square, power = rows["aten::square"], rows["aten::pow"]
    assert (square.gpu_us, square.self_gpu_us) == (220, 0)
    assert (power.gpu_us, power.self_gpu_us, power.calls) == (220, 220, 2)
    # Without its children: the operator below, and CUDA's own function below that.
    assert square.cpu_us == 12 and square.self_cpu_us == 2
    assert power.self_cpu_us == pytest.approx(power.cpu_us - 4)
    text = " ".join(report.chains(found, 5))
    assert "aten::square → aten::pow → vectorized_elementwise_kernel<pow_tensor_scal" in text


def test_a_kernel_that_no_operator_launched_is_placed_by_its_launch() -> None:
    made = Made()
    made.cpu("train_step", 0, 50, "user_annotation")
    made.launched([], "square_kernel", at=10, took=5)
    found = of(made)
    assert found.chains[0].path == ("train_step",)
    assert {o.gpu_us for o in found.operators} == {0}


def test_steps_bound_the_window_and_are_no_part_of_a_chain() -> None:
    made = Made()
    made.cpu("aten::before", 0, 5)
    made.cpu("ProfilerStep#2", 100, 100, "user_annotation")
    made.launched(["aten::mul"], "k", at=110, took=40, later=80)
    made.cpu("ProfilerStep#3", 200, 100, "user_annotation")
    found = of(made)
    assert found.window.steps == (2, 3)
    assert found.overhead.window_us == 200
    assert found.chains[0].path == ("aten::mul",)
    (row,) = [o for o in found.operators if o.name.startswith("ProfilerStep")]
    assert (row.name, row.calls) == ("ProfilerStep*", 2)


def test_an_operator_that_only_calls_itself_counts_once_as_in_torch() -> None:
    made = Made()
    made.launched(["aten::sum", "aten::sum"], "reduce", at=0, took=9)
    rows = {o.name: o for o in of(made).operators}
    assert rows["aten::sum"].calls == 1
    assert rows["aten::sum"].self_gpu_us == 9


def test_without_a_gpu_its_times_are_unknown_and_not_nought() -> None:
    made = Made()
    made.cpu("aten::mul", 0, 5)
    found = of(made, gpu=False)
    assert found.operators[0].gpu_us is None and found.operators[0].self_gpu_us is None
    assert found.overhead.busy_us is None and found.overhead.launches == 0
    assert report.sentence(found.overhead) == ""
    assert "GPU times need a GPU" in next(report.footnotes(found, "target"))
    document = report.document("x", [found.window], found, [])
    assert json.loads(json.dumps(document))["operators"][0]["gpu_us"] is None


# -- overhead ----------------------------------------------------------------------------------


def test_busy_time_gaps_launches_and_waits() -> None:
    made = Made()
    # Kernels at 4…14, 104…114 and, on another stream, 109…119: busy 10 + 15 µs, one gap of 90.
    for at in (0, 100, 105):
        made.launched(["aten::mul"], "k", at=at, took=10, launch=2)
    made.cpu("cudaDeviceSynchronize", 150, 50, "cuda_runtime")
    seen = of(made).overhead
    assert seen.window_us == 200
    assert (seen.busy_us, seen.gaps, seen.gap_us) == (25, 1, 90)
    assert (seen.kernels, seen.kernel_us, seen.median_kernel_us) == (3, 30, 10)
    assert (seen.launches, seen.launch_us, seen.median_launch_us) == (3, 6, 2)
    assert (seen.syncs, seen.sync_us) == (1, 50)
    said = report.sentence(seen)
    assert said.startswith("the GPU was busy 12 % of 200.0 µs: 3 launches take 2.00 µs")
    assert "waited for it 25 %" in said


def test_busy_time_equals_brute_force() -> None:
    chance = random.Random(5)
    for _ in range(50):
        made = Made()
        spans = [(chance.randrange(200), chance.randrange(1, 30)) for _ in range(12)]
        for start, took in spans:
            made.launched(["op"], "k", at=start, took=took, later=10)
        ticks = {t for s, d in spans for t in range(s + 10, s + 10 + d)}
        gaps = (max(ticks) + 1 - min(ticks)) - len(ticks)
        seen = of(made).overhead
        assert (seen.busy_us, seen.gap_us) == (len(ticks), gaps)


# -- what is no trace, or a bad one ------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"{}", b"[1, 2]", b"\x1f\x8bnonsense", b"traceEvents"])
def test_an_invalid_trace_is_reported(data: bytes) -> None:
    with pytest.raises(Unreadable):
        summarise(data, Window(1, "ptxview", ""))


def test_damaged_events_are_passed_over_and_counted() -> None:
    made = Made()
    for n in range(6):
        made.cpu(f"aten::op{n}", n * 10, 5)
    text = made.json().replace('"aten::op2"', '"aten::op2', 1).replace("{", "{\n    ")
    found = summarise(text.encode(), Window(1, "ptxview", ""))
    names = {o.name for o in found.operators}
    assert {"aten::op0", "aten::op1", "aten::op5"} <= names and "aten::op2" not in names
    assert any("could not be read" in note for note in found.notes)


def test_a_trace_that_is_cut_off_keeps_what_it_has_and_a_compressed_one_all() -> None:
    made = Made()
    for n in range(300):
        made.cpu(f"aten::op{n % 7}", n * 10, 5)
    data = made.json().encode()
    cut = summarise(data[: len(data) // 2], Window(1, "ptxview", ""))
    assert 120 < sum(o.calls for o in cut.operators) < 180
    found = summarise(gzip.compress(data), Window(1, "ptxview", ""))
    assert sum(o.calls for o in found.operators) == 300 and not found.notes


# -- kernels of the recording ------------------------------------------------------------------


def test_a_kernel_is_tied_to_the_variant_whose_launch_it_was() -> None:
    rec = open_path(SAMPLE)
    wanted = [
        (k, v, v.calls[0]) for k, v in rec.variants() if k.name == "square_kernel" and v.calls
    ]
    assert len(wanted) > 1
    for kernel, variant, launch in wanted:
        assert launch.grid and launch.block
        made = Made()
        made.launched([], "square_kernel", 0, 1, block=launch.block[0], grid=launch.grid[0])
        (found,) = linked(of(made), rec).kernels
        assert found.kernel == kernel.id
        assert variant.id in found.variants
        assert all(
            v.config["num_warps"] == variant.config["num_warps"]
            for _, v, _ in wanted
            if v.id in found.variants
        )


def test_kernels_of_cuda_and_of_a_graph_are_found_by_their_demangled_names() -> None:
    rec = open_path(SAMPLE)
    made = Made()
    made.launched(["square_matrix"], "square_matrix_kernel(float const*, float*, int, int)", 0, 1)
    inductor = next(k for k in rec.kernels if k.origin.value == "inductor")
    made.launched(["Torch-Compiled Region: 0/0", inductor.name], inductor.name, 100, 1)
    made.launched(["aten::mul"], "somebody_elses", 200, 1)
    found = {k.name.partition("(")[0]: k for k in linked(of(made), rec).kernels}
    assert found["square_matrix_kernel"].kernel is not None
    assert found[inductor.name].kernel == inductor.id
    assert found[inductor.name].fused == (inductor.fusion.ops if inductor.fusion else ())
    assert found["somebody_elses"].kernel is None
    told = list(report.chains(replace(of(made), kernels=tuple(found.values())), 9))
    assert any(
        f"Torch-Compiled Region: 0/0 → {short_name(inductor.name)}  1 ×" in line for line in told
    )


# -- compiling ---------------------------------------------------------------------------------


def window(**given: object) -> Window:
    return replace(Window(1, "ptxview", "", pid=9, began=100.0, ended=101.0), **given)


def told(**given: object) -> list[str]:
    made = Made()
    made.cpu("aten::mul", 0, 10)
    profile = replace(of(made), window=window(steps=(2, 3, 4)))
    return list(warned(profile, [facts({"pid": 9, **given})]).warnings)


def test_compiling_in_several_steps_is_a_benchmark_of_the_compiler() -> None:
    made = Made()
    for n in (2, 3):
        made.cpu(f"ProfilerStep#{n}", n * 1000, 900, "user_annotation")
        made.cpu("_compile.compile_inner (dynamo_timed)", n * 1000 + 10, 800)
        made.cpu("compile_fx (dynamo_timed)", n * 1000 + 20, 600)
    found = of(made)
    (only,) = found.compiling
    assert (only.us, only.count, only.steps) == (1600, 2, (2, 3))
    (said,) = warned(found, []).warnings
    assert "in 2 steps (#2, #3)" in said and "1.6 ms" in said and "time the compiler" in said


def test_torch_compile_called_again_and_again_is_reported_with_its_line() -> None:
    times = [[100.1 + n / 10, 100.1 + n / 10 + 0.0005] for n in range(5)]
    (said,) = told(calls=[{"site": "bench.py:41", "count": 1234, "times": times}])
    assert "torch.compile was called 1,234 times at bench.py:41, 500 µs each" in said
    assert told(calls=[{"site": "bench.py:41", "count": 1, "times": times[:1]}]) == []
    before = [[90.0, 90.1], [91.0, 91.1]]
    assert told(calls=[{"site": "bench.py:41", "count": 2, "times": before}]) == []


def test_a_compile_between_two_timing_events_is_reported() -> None:
    compiled = {"name": "model", "file": "m.py", "line": 3, "began": 50.2, "ended": 51.0}
    pair = {"sites": "b.py:4\nb.py:6", "count": 2, "times": [[50.0, 51.2], [60.0, 60.1]]}
    (said,) = told(dynamo=[compiled], pairs=[pair])
    assert "between the events of b.py:4 and b.py:6 model was compiled: 800 ms of 1.2 s" in said
    assert "in 1 of 2 measurements" in said
    assert told(pairs=[pair]) == []


def test_triton_compiling_within_the_window_counts_and_beside_it_does_not() -> None:
    within = {"name": "square_kernel", "began": 100.2, "ended": 100.5}
    (said,) = told(triton=[within])
    assert "300 ms" in said and "Triton's square_kernel" in said
    assert told(triton=[{**within, "began": 98.0, "ended": 99.0}]) == []


# -- the recording -----------------------------------------------------------------------------


def recorded(folder: Path, trace: bytes, **given: object) -> Path:
    writer = Writer(folder)
    writer.event(event="recording", schema=1, mode="gpu", time=1.0)
    digest = writer.blob(trace)
    writer.event(event="profile", time=2.0, trace=digest, gpu=True, began=1.0, ended=2.0, **given)
    writer.close()
    return folder


def test_a_kept_summary_is_the_same_and_needs_no_trace(tmp_path: Path) -> None:
    made = Made()
    made.cpu("ProfilerStep#2", 0, 100, "user_annotation")
    made.launched(["aten::square", "aten::pow"], POW, at=5, took=3)
    path = recorded(tmp_path / "rec", gzip.compress(made.json().encode()), mode="whole")
    events = read_events(path)
    cache = DerivedCache(tmp_path / "cache")
    (only,) = windows(events)
    first = profile_of(events, only, cache)
    content = events.blob(only.trace)
    assert isinstance(content, BlobContent)
    content.path.write_bytes(b"gone")
    assert profile_of(events, only, cache) == first
    for file in (tmp_path / "cache").iterdir():
        file.write_text('{"operators": 3}')
    with pytest.raises(Unreadable):
        profile_of(events, only, cache)


def test_of_several_ranks_the_lowest_is_shown_and_each_can_be(tmp_path: Path) -> None:
    made = Made()
    made.launched(["aten::mul"], "k", at=0, took=1)
    path = recorded(tmp_path / "rec", made.json().encode())
    (digest,) = [e["trace"] for e in read_events(path).events if e.get("event") == "profile"]
    for pid, rank, began in ((5, 1, 3.0), (4, 0, 2.5)):
        with (path / f"events-{pid}-x.jsonl").open("w") as out:
            for event in (
                {"event": "process", "pid": pid, "rank": rank},
                {"event": "profile", "pid": pid, "trace": digest, "began": began, "gpu": True},
            ):
                out.write(json.dumps(event) + "\n")
    rec, cache = open_path(path), DerivedCache(tmp_path / "cache")
    known, shown, problems = profiles(path, rec, cache)
    assert [w.rank for w in known] == [None, 0, 1] and not problems
    assert shown is not None and (shown.window.rank, shown.window.number) == (0, 2)
    other = profiles(path, rec, cache, 3)[1]
    assert other is not None and other.window.rank == 1
    with pytest.raises(Unreadable, match="there is no window 4"):
        profiles(path, rec, cache, 4)


def test_why_there_is_no_profile_is_reported(tmp_path: Path) -> None:
    def said(*events: Mapping[str, object]) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        writer = Writer(folder)
        for event in ({"event": "recording", "schema": 1}, *events):
            writer.event(**event)
        writer.close()
        return why_none(folder)

    torch = {"event": "torch"}
    assert said() == "the program did not import torch"
    assert "ptxview profile SCRIPT" in said(torch)
    wish = {"wait": 9, "warmup": 1, "step": "work"}
    told: dict[str, object] = {"event": "profile_facts", "seen": 4, "wish": wish}
    assert (
        said(torch, told)
        == "the program made 4 steps, and with wait 9, warmup 1 none of them counts"
    )
    assert said(torch, {**told, "seen": 0}) == "the program never called work"


# -- stacks ------------------------------------------------------------------------------------


def test_stacks_are_lines_for_a_flame_graph() -> None:
    made = Made()
    made.cpu("train.py(9): <module>", 0, 1000, "python_function")
    made.cpu("train.py(3): step one", 10, 500, "python_function")
    made.launched(["aten::square", "aten::pow"], "k", at=20, took=70)
    made.launched(["aten::mul"], "k", at=700, took=30)
    data = made.json().encode()
    assert stacks(data, gpu=True) == [
        "train.py(9):_<module>;aten::mul 30",
        "train.py(9):_<module>;train.py(3):_step_one;aten::square;aten::pow 70",
    ]
    by_cpu = dict(line.rsplit(" ", 1) for line in stacks(data, gpu=False))
    assert by_cpu["train.py(9):_<module>;train.py(3):_step_one;aten::square"] == "1"


def test_the_timeline_is_the_last_steps_with_the_gaps_between() -> None:
    made = Made()
    for step, at in ((1, 0), (2, 1000)):
        made.cpu(f"ProfilerStep#{step}", at, 900, "user_annotation")
        made.launched(["aten::mul"], "mul", at=at + 10, took=40, later=20)
        made.launched(["aten::add"], "add", at=at + 200, took=10, later=1000)  # after the step
    found = of(made)
    (first, second) = found.timeline
    assert (first.name, first.start_us, first.us, first.gap_us) == ("mul", 0, 40, None)
    assert (second.name, second.us) == ("add", 10)
    assert second.gap_us == pytest.approx(second.start_us - 40)
    rec = open_path(SAMPLE)
    drawn = timeline.lines(timeline.named_timeline(profile_streams(found), rec), 100)
    title, axis, bars, *_ = (line.text.plain for line in drawn)
    assert title.startswith("2 spans in ") and "╷0 µs" in axis
    assert bars.startswith("GPU  ███▂·") and bars.endswith("·▆")
