"""``trace``: figures beside ncu's of an H200, faults, samples, and what it is given."""

from __future__ import annotations

import csv
import ctypes
import io
import json
import re
import tarfile
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from inspector.base.model import Argument, Share
from inspector.execute import Program
from inspector.execute.calls.inputs import InputOptions, LaunchInputs, make_inputs
from tests.execute.calls.programs import kernel, written
from tests.helpers.ptxview import REPOSITORY, SAMPLE, call

RECORDING = str(SAMPLE)
NCU = REPOSITORY / "tests" / "data" / "bench" / "ncu" / "squares.tar.xz"
METRICS = (
    "Instructions Executed",
    "Predicated-On Thread Instructions Executed",
    "L1 Tag Requests Global",
    "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal",
)


@cache
def ncu_page(name: str) -> list[list[str]]:
    """A page of ncu's report of the squares, as rows."""
    with tarfile.open(NCU) as archive:
        member = next(m for m in archive.getnames() if m.endswith(name))
        held = archive.extractfile(member)
        assert held is not None
        return list(csv.reader(io.StringIO(held.read().decode())))


def ncu_lines(launch: int, word: str) -> list[list[int]]:
    """What ncu counted of a launch's instructions with a word in them, sorted."""
    found: list[list[list[int]]] = []
    head: list[str] = []
    for row in ncu_page("source.csv"):
        if row[0] == "Kernel Name":
            found.append([])
        elif row[0] == "Address":
            head = row
        elif word in row[1]:
            said = dict(zip(head, row, strict=False))
            found[-1].append([int(said[m] or 0) for m in METRICS])
    return sorted(found[launch])


def ncu_total(launch: int, metric: str) -> int:
    head, _, *rows = ncu_page("raw.csv")
    return int(rows[launch][head.index(metric)].replace(",", ""))


def figures(told: dict[str, Any], kind: str, scale: int = 1) -> list[list[int]]:
    """What trace counted of loads or stores of global memory, sorted."""
    keys = ("warps", "lanes", "tag_requests", "sectors", "least_sectors")
    return sorted(
        [scale * line[key] for key in keys]
        for line in told["lines"]
        if any((a["space"], a["kind"]) == ("global", kind) for a in line["accesses"])
    )


@pytest.mark.parametrize(
    "launch, variant, scale", [(0, "780c582c", 1), (1, "a4fe74f3", 1), (3, "f8f8a0a4", 64)]
)
def test_every_load_and_store_is_counted_as_ncu_does_on_an_h200(
    launch: int, variant: str, scale: int
) -> None:
    """The recorded call of the last has 64 rows, and ncu's 4,096: every row is like the others."""
    told = call("trace", RECORDING, variant, "--blocks", "all", "--json").json
    assert told["blocks"]["run"] == told["blocks"]["of"]
    for word, kind in (("LDG", "load"), ("STG", "store")):
        theirs = [row for row in ncu_lines(launch, word) if row[1]]
        assert theirs, word
        assert [row for row in figures(told, kind, scale) if row[1]] == theirs
    totals = told["totals"]
    for metric, key in (
        ("memory_l2_theoretical_sectors_global", "sectors"),
        ("memory_l2_theoretical_sectors_global_ideal", "least_sectors"),
        ("memory_l1_tag_requests_global", "tag_requests"),
    ):
        ours = totals[f"global_load_{key}"] + totals[f"global_store_{key}"]
        assert scale * ours == ncu_total(launch, metric)


def test_the_table_says_what_the_json_says() -> None:
    done = call("trace", RECORDING, "a4fe74f3", "--lines", "100")
    assert done.status == 0
    row = next(line for line in done.text.splitlines() if line.lstrip().startswith("100 "))
    told = call("trace", RECORDING, "a4fe74f3", "--lines", "100", "--json").json
    (line,) = told["lines"]
    assert f"{line['warps']:,}" in row and f"{line['sectors']:,}" in row
    assert f"{line['tag_requests']:,}" in row
    assert f"{100 * line['predicated_off']:.0f} %" in row
    assert "all 1,823 blocks" in done.text
    assert told["totals"]["warp_instructions"] > line["warps"]


def test_a_sample_says_of_how_many_and_is_exact_for_its_blocks() -> None:
    done = call("trace", RECORDING, "a4fe74f3", "--blocks", "50")
    assert "50 of 1,823 blocks" in done.text
    told = call("trace", RECORDING, "a4fe74f3", "--blocks", "50", "--json").json
    assert told["blocks"] == {"run": 50, "of": 1823, "sampled": False}
    assert {line["warps"] for line in told["lines"]} == {200}
    one = call("trace", RECORDING, "a4fe74f3", "--blocks", "1822,0,0", "--json").json
    (number,) = (line["values"] for line in one["lines"] if line["n"] == 34)
    assert number["low"] == number["high"] == 1822 and number["uniform"] == "grid"


@pytest.mark.parametrize("blocks", ["all", str(1 << 24)])
def test_blocks_of_a_grid_are_not_listed_before_they_run(tmp_path: Path, blocks: str) -> None:
    ptx, inputs = written(tmp_path, kernel(""), x=np.zeros(32, np.float32))
    words = ("trace", ptx, "--threads", "32", "--inputs", inputs, "--budget", "1000000")
    call(*words, "--grid", "4")  # what is imported and read once
    tracemalloc.start()
    try:
        done = call(*words, "--grid", str(1 << 25), "--blocks", blocks)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "1,000,000 lane-instructions" in done.text + done.err.decode()
    assert peak_bytes < 32 << 20, "eight bytes a block would be 128 MiB and more"


@pytest.mark.nightly
def test_where_all_blocks_would_take_long_some_are_run_and_that_is_said() -> None:
    words = ["trace", RECORDING, "ba6e6b76", "--grid", "1823,16"]
    told = call(*words, "--json").json
    ran, of = told["blocks"]["run"], told["blocks"]["of"]
    assert told["blocks"]["sampled"] and 8 <= ran < of == 1823 * 16
    assert told["work"] < 200_000_000
    (number,) = (one["registers"]["%r1"] for one in told["lines"] if "%r1" in one["registers"])
    assert (number["low"], number["high"]) == (0, 1822)  # the first and the last are among them
    text = call(*words, "--lines", "29").text
    assert f"{ran:,} of 29,168 blocks" in text and "--blocks all" in text


def test_values_are_those_of_the_inputs(tmp_path: Path) -> None:
    text = kernel("    ld.global.f32 %f1, [%rd1];\n    mul.f32 %f2, %f1, %f1;")
    x = np.array([3.0, -2.0, np.nan, np.inf] * 16, np.float32)
    ptx, inputs = written(tmp_path, text, x=x)
    told = call("trace", ptx, "--grid", "2", "--threads", "32", "--inputs", inputs, "--json").json
    lines = {line["n"]: line["values"] for line in told["lines"]}
    load, square = (lines[n] for n in sorted(lines)[-3:-1])
    assert (load["low"], load["high"]) == (-2.0, "inf")
    assert (load["nan"], load["inf"], load["distinct"], load["count"]) == (16, 16, 4, 64)
    assert (square["low"], square["high"], square["nan"]) == (4.0, "inf", 16)
    assert told["seed"] is None and told["given"] == ["x"] and told["call"] is None
    (address,) = (v for line in told["lines"] for r, v in line["registers"].items() if r == "%rd1")
    assert address["type"] == "s64"
    assert address["address_in"] == {"name": "x", "low": 0, "high": 4 * 63}


def test_new_inputs_are_the_same_for_a_seed_and_differ_for_another() -> None:
    said = [
        call("trace", RECORDING, "softmax_kernel", "--blocks", "3", "--json", *more).json["lines"]
        for more in ((), ("--seed", "0"), ("--seed", "1"))
    ]

    def values(lines: list[Any]) -> list[Any]:
        return [
            {**v, "low": 0, "high": 0} if v["address_in"] else v
            for line in lines
            if (v := line["values"])
        ]

    assert values(said[0]) == values(said[1])
    assert values(said[0]) != values(said[2])


def test_an_access_past_the_end_is_reported_with_its_place(tmp_path: Path) -> None:
    x = np.zeros((10, 10), np.float32)
    ptx, inputs = written(tmp_path, kernel("    st.global.u32 [%rd1], %r1;"), x=x)
    words = ["trace", ptx, "--grid", "4", "--threads", "32", "--inputs", inputs]
    done = call(*words, "--blocks", "all")
    assert done.status == 1
    told = json.loads(call(*words, "--blocks", "all", "--json").out)["fault"]
    # Thread 4 of block 3 has element 100, the first that is not there.
    assert (told["cause"], told["block"], told["thread"]) == ("out of bounds", [3, 0, 0], [4, 0, 0])
    assert told["tensor"] == {"name": "x", "dtype": "float32", "shape": [10, 10], "bytes": 400}
    assert told["past_bytes"] == 4
    text = Path(ptx).read_text().splitlines()
    assert text[told["line"] - 1].strip() == told["statement"] == "st.global.u32 [%rd1], %r1;"
    for said in (
        "block (3, 0, 0)",
        "thread (4, 0, 0)",
        "x (float32, 10×10)",
        f"line {told['line']}",
    ):
        assert said in done.text, said
    assert "Traceback" not in done.said


@pytest.mark.parametrize("address", ["0", "0x7f0000001000", "-1"])
@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 %r4, [%rd3];",
        "st.global.u32 [%rd3], %r1;",
        "atom.global.add.u32 %r4, [%rd3], 1;",
        "st.u32 [%rd3], %r1;",
        "cp.async.ca.shared.global [tile], [%rd3], 4;",
    ],
)
def test_an_address_of_nobodys_is_a_fault_and_no_access(
    tmp_path: Path, access: str, address: str
) -> None:
    text = kernel(
        f"    mov.u64 %rd3, {address};\n    {access}", before=".shared .align 16 .b8 tile[64];"
    )
    ptx, inputs = written(tmp_path, text, x=np.zeros(64, np.float32))
    done = call("trace", ptx, "--grid", "1", "--threads", "32", "--inputs", inputs, "--json")
    assert done.status == 1
    told = json.loads(done.out)["fault"]
    assert told["cause"] in ("out of bounds", "null", "misaligned")
    assert told["statement"] == access


def test_the_source_line_of_a_fault_is_reported(tmp_path: Path) -> None:
    """One row less than the recorded call's: the last block's loads have nothing to read."""
    inputs = tmp_path / "short.npz"
    np.savez(inputs, input_ptr=np.zeros((1822, 781), np.float32))
    done = call("trace", RECORDING, "a4fe74f3", "--inputs", inputs, "--blocks", "1822,0,0")
    assert done.status == 1
    assert "input_ptr (float32, 1822×781)" in done.text
    assert "input_ptr is 1822×781 and was 1823×781 in the recording" in done.text
    at = re.search(r"source +(\S+\.py):(\d+)", done.text)
    assert at is not None
    source = call("show", RECORDING, "a4fe74f3", "--stage", "source").text.splitlines()
    assert "tl.load" in source[int(at[2]) - 1]


def test_what_cannot_be_run_is_reported_by_line_before_anything_is(tmp_path: Path) -> None:
    text = kernel(
        "    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r1}];", before=".global .texref t;"
    )
    ptx, inputs = written(tmp_path, text, x=np.zeros(1, np.float32))
    line = next(n for n, said in enumerate(text.splitlines(), 1) if "tex.1d" in said)
    done = call("trace", ptx, "--grid", "1", "--threads", "32", "--inputs", inputs)
    assert (done.status, done.text) == (3, "")
    assert f"line {line}: tex.1d" in done.said and "nothing was run" in done.said


PRINTS = """
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 said[9] = {116, 32, 61, 32, 37, 100, 10, 0};
"""
"""``t = %d`` and a line's end, as nvcc declares what printf needs."""


def test_what_lanes_print_is_reported(tmp_path: Path) -> None:
    text = kernel(
        "    .local .align 4 .b8 values[4];\n    setp.ne.s32 %p1, %r1, 5;\n    @%p1 ret;\n"
        "    mov.u64 %rd3, values;\n    cvta.local.u64 %rd4, %rd3;\n    st.local.u32 [%rd3], %r1;\n"
        "    mov.u64 %rd5, said;\n    cvta.global.u64 %rd6, %rd5;\n    {\n"
        "    .param .b64 p0;\n    st.param.b64 [p0], %rd6;\n    .param .b64 p1;\n"
        "    st.param.b64 [p1], %rd4;\n    .param .b32 r0;\n"
        "    call.uni (r0), vprintf, (p0, p1);\n    }",
        before=PRINTS,
    )
    ptx, inputs = written(tmp_path, text, x=np.zeros(64, np.float32))
    words = ["trace", ptx, "--grid", "2", "--threads", "32", "--inputs", inputs]
    assert call(*words, "--json").json["printed"] == ["t = 5\n", "t = 5\n"]
    assert len(re.findall(r"^ +printed +t = 5$", call(*words).text, re.MULTILINE)) == 2


def test_what_takes_too_long_is_ended_and_says_how_to_go_on(tmp_path: Path) -> None:
    text = kernel("$AGAIN:\n    add.s32 %r4, %r4, 1;\n    bra $AGAIN;")
    ptx, inputs = written(tmp_path, text, x=np.zeros(1, np.float32))
    words = ["trace", ptx, "--grid", "1", "--threads", "32", "--inputs", inputs]
    done = call(*words, "--budget", "100000")
    assert done.status == 1
    assert "--budget 200000" in done.said and "100,000 lane-instructions" in done.said
    told = json.loads(call(*words, "--budget", "100000", "--json").out)
    assert told["stopped"] == {"budget": 100000, "seconds": None} and told["blocks"]["run"] is None
    hot = max(told["lines"], key=lambda one: one["warps"])
    assert 10 < hot["warps"] <= 100_000 // 32


def test_lines_of_the_source_are_the_sum_of_what_is_tied_to_them() -> None:
    told = call("trace", RECORDING, "ff3a7da2", "--by", "source", "--json").json
    by_line = {line["n"]: line for line in told["lines"]}
    assert told["by_source"]
    for line in told["by_source"]:
        assert line["warps"] == sum(by_line[n]["warps"] for n in line["ptx"])
        assert line["values"] is None
    source = call("show", RECORDING, "ff3a7da2", "--stage", "source").text.splitlines()
    loads = [
        one
        for one in told["by_source"]
        if any((a["space"], a["kind"]) == ("global", "load") for a in one["accesses"])
    ]
    assert loads and all("tl.load" in source[one["n"] - 1] for one in loads)
    flops = told["totals"]["flops"]
    assert flops == 2 * 256 * 384 * 512  # a product of 256×512 by 512×384, and nothing else


@pytest.mark.parametrize(
    "words, status, said",
    [
        ((RECORDING, "square_matrix_kernel"), 2, "--grid and --threads"),
        ((RECORDING, "squ"), 2, "fits 9 variants"),
        ((RECORDING, "a4fe74f3", "--call", "5"), 2, "they are 0 to 0"),
        ((RECORDING, "a4fe74f3", "--blocks", "1823,0,0"), 2, "there is no block"),
        ((RECORDING, "a4fe74f3", "--blocks", "many"), 2, "many"),
        ((RECORDING, "a4fe74f3", "--threads", "64"), 2, "demands blocks of"),
        ((RECORDING, "a4fe74f3", "--inputs", "nowhere.npz"), 4, "nowhere.npz"),
        ((RECORDING, "a4fe74f3", "--inputs", __file__), 4, "is not an .npz"),
        ((RECORDING, "a4fe74f3", "--by", "output_code"), 2, "no stage output_code"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(words: tuple[str, ...], status: int, said: str) -> None:
    done = call("trace", *words)
    assert (done.status, done.text) == (status, "")
    assert said in done.said and "Traceback" not in done.said and "fault of" not in done.said


class Explodes:
    """Unpickled, it would be known."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit(99)",))


@pytest.mark.parametrize(
    "array, said",
    [
        (np.array([Explodes()], object), "holds object"),
        (np.zeros(3, [("a", "f4")]), "no numbers"),
        (np.zeros((3, 3), np.int64), "is given int64"),
        (np.array(["text"]), "no numbers"),
    ],
)
def test_what_no_kernel_takes_is_refused(tmp_path: Path, array: Any, said: str) -> None:
    np.savez(tmp_path / "bad.npz", input_ptr=array)
    done = call("trace", RECORDING, "a4fe74f3", "--inputs", tmp_path / "bad.npz")
    assert done.status in (2, 4) and said in done.said


def test_what_a_gpu_rounds_otherwise_is_said(tmp_path: Path) -> None:
    """PTX ISA: ``ex2.approx.f32`` within 2 units in the last place; an fp32 sum is exact."""
    text = kernel(
        "    mov.f32 %f1, 0f3F000000;\n    ex2.approx.f32 %f1, %f1;\n    add.f32 %f1, %f1, %f1;\n"
        "    mul.wide.u32 %rd1, %r1, 4;\n    add.s64 %rd1, %rd0, %rd1;\n"
        "    st.global.f32 [%rd1], %f1;"
    )
    ptx, inputs = written(tmp_path, text, x=np.zeros(32, np.float32))
    words = ["trace", ptx, "--grid", "1", "--threads", "32", "--inputs", inputs]
    told = call(*words, "--json").json
    (one,) = told["approximate"]
    assert one["opcode"] == "ex2.approx.f32" and "2 units in the last place" in one["bound"]
    line = Path(ptx).read_text().splitlines()[one["n"] - 1]
    assert "ex2.approx.f32" in line and one["section"] == "ex2"
    assert "within 2 units in the last place" in " ".join(call(*words).text.split())


def address(made: LaunchInputs, name: str) -> int:
    buffer = made.tensor(name)
    assert buffer is not None
    return buffer.address


X = Argument("x", "*fp32", None, "float32", (64,), (1,), 512)
SHARED = [
    ("the same", X, [Share("x", "y")], (0, 0)),
    ("a part", replace(X, shape=(8,)), [Share("x", "y", 32)], (0, 32)),
    ("a part, told from it", replace(X, shape=(8,)), [Share("y", "x", -32)], (0, 32)),
    ("the larger", replace(X, shape=(128,)), [Share("y", "x", 64)], (64, 0)),
    ("another part", X, [Share("x", "y", 128)], (0, 128)),
]


@pytest.mark.parametrize(
    ("y", "shares", "offsets"), [s[1:] for s in SHARED], ids=[s[0] for s in SHARED]
)
def test_inputs_share_memory_as_the_programs_did(
    y: Argument, shares: list[Share], offsets: tuple[int, int]
) -> None:
    program = Program(kernel("", parameters=".param .u64 x, .param .u64 y"))
    arguments = [X, replace(y, name="y")]
    made = make_inputs(program, ["x", "y"], arguments, InputOptions(shares=shares))
    first, second = (address(made, name) for name in "xy")
    assert first - second == offsets[0] - offsets[1]
    assert not made.remarks
    apart = make_inputs(program, ["x", "y"], arguments, InputOptions())
    first, second = (address(apart, name) for name in "xy")
    assert abs(first - second) >= 256


def test_a_large_tensor_repeats_its_numbers_at_no_power_of_two() -> None:
    program = Program(kernel("", parameters=".param .u64 x"))
    large = replace(X, shape=(9, 1 << 20), strides=(1 << 20, 1))
    made = make_inputs(program, ["x"], [large], InputOptions()).tensor("x")
    assert made is not None
    values = np.frombuffer(ctypes.string_at(made.address, 36 << 20), np.float32)
    assert abs(values.std() - 1) < 0.01
    for power in range(24):
        assert (values[1 << power :] == values[: -(1 << power)]).mean() < 0.01


def test_indices_keep_their_range_in_memory_that_floats_share() -> None:
    program = Program(kernel("", parameters=".param .u64 x, .param .u64 y"))
    indices = Argument("x", "*i32", None, "int32", (16,), (1,), 512, low=3, high=5)
    wish = InputOptions(shares=[Share("x", "y")])
    made = make_inputs(program, ["x", "y"], [indices, replace(X, name="y")], wish)
    first, second = (made.tensor(name) for name in "xy")
    assert first is not None and second is not None and first.address == second.address
    values = np.frombuffer(ctypes.string_at(first.address, 256), np.int32)
    assert set(values[:16]) <= {3, 4, 5}
    assert np.isfinite(values[16:].view(np.float32)).all() and values[16:].any()
