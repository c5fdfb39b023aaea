"""PTX that would take all memory or time, or that no ptxas takes: refused, or bounded."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from inspector.execute import LaunchError, Memory, OutOfBudget, Program, execute
from inspector.execute import program as program_module
from inspector.execute.calls.inputs import InputOptions, make_inputs
from inspector.execute.faults import Malformed
from inspector.execute.translate import Translator
from inspector.parsers.ptx_statement import PtxInstruction

ROOT = Path(__file__).parent.parent.parent
MEMORY_BYTES = 3 << 29
"""Address space of a child: numpy and its threads take a third of it."""


def kernel(body: str, declared: str = "", parameters: str = ".param .u64 a") -> str:
    return (
        f".version 8.6\n.target sm_90a\n.address_size 64\n{declared}\n"
        f".visible .entry k({parameters})\n{{\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n"
        ".shared .align 128 .b8 sm[4096]; .param .b64 pf; .param .b64 pa;\n"
        f"ld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
    )


def run(text: str, seconds: float | None = None) -> tuple[str, ...]:
    memory = Memory()
    buffer = memory.add("a", np.zeros(4096, np.uint8))
    return execute(
        Program(text), (1,), (128,), [buffer], memory=memory, budget=10_000_000, seconds=seconds
    ).printed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("@%rd1 mov.u32 %r1, %r2;", "predicate"),
        ("@%r1 bra L;\nL:", "predicate"),
        ("add.s32 %p1, %r1, %r2;", "32 bits"),
        ("add.s32 %rd1, %r1, %r2;", "32 bits"),
        ("setp.lt.s32 %r1, %r2, %r3;", "predicate"),
        ("mov.pred %p1, %tid.x;", "predicate"),
        ("mov.pred %p1, sm;", "predicate"),
        ("mbarrier.expect_tx.relaxed.cta.shared.b64 [sm];", "operands"),
        ("call.uni vprintf, (pf);", "vprintf takes 2"),
        ("call.uni __assertfail;", "__assertfail takes 3"),
        ("call.uni vprintf, (%rd1, %rd1);", "vprintf takes 2"),
        ("ld.global.v2.b32 {%r1, %r2, %r3}, [%rd1];", "3 elements"),
        ("ld.global.v2.b32 %r1, [%rd1];", "1 element,"),
        ("st.global.b32 [%rd1], {%r1, %r2};", "2 elements"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [sm];", "2 elements"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [sm], {%r1, %r2};", "2 elements"),
        ("cp.async.ca.shared.global [sm], [%rd1], 4294967295;", "4,294,967,295 bytes"),
        ("cp.async.ca.shared.global [sm], [%rd1], 0;", "0 bytes"),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.b8 [%rd1], [sm], %r1;",
            "b8",
        ),
        *(
            (
                f"wgmma.mma_async.sync.aligned.{shape}.f32.f16.f16 {{%r1,%r2,%r3,%r4}}, %rd1, %rd2,"
                " %p1, 1, 1, 0, 0;",
                shape,
            )
            for shape in ("m64n99999999k16", "m64n8k99999999", "m63n8k16", "m64n0k16", "m64n12k16")
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%r1,%r2,%r3,%r4}, %rd1, %rd2, "
            "%p1, 1, 1, 0, 0;",
            "4 elements, where there must be 8",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, "
            "{%r1,%r2,%r3,%r4,%r5}, {%r1,%r2}, {%r1,%r2,%r3,%r4};",
            "5 elements, where there must be 4",
        ),
    ],
)
def test_a_malformed_statement_is_refused_by_its_line(body: str, reason: str) -> None:
    text = kernel(body)
    (obstacle,) = Program(text).cannot()
    assert text.split("\n")[obstacle.line - 1] in body
    assert reason in obstacle.reason


@pytest.mark.parametrize(
    "declared",
    [
        ".global .u64 g[4] = {h+zz};",
        ".global .b32 g[2] = {1, 2, 3};",
        ".global .b128 g[4] = {1, 2};",
        ".global .pred g[4] = {1};",
        ".global .u32 g[2] = {nonsense};",
    ],
)
def test_a_variable_with_malformed_initial_values_is_refused_by_its_line(declared: str) -> None:
    (obstacle,) = Program(kernel("", declared)).cannot()
    assert obstacle.line == 4
    assert "initial values of g" in obstacle.reason


def test_initial_values_may_be_addresses_and_functions() -> None:
    declared = (
        ".func f() { ret; }\n.global .b32 h[2] = {7, 8};\n"
        ".global .u64 g[3] = {generic(h)+4, f, -1};"
    )
    body = "mov.u64 %rd2, g; ld.global.u64 %rd3, [%rd2]; ld.global.u32 %r1, [%rd3];"
    memory, out = Memory(), np.zeros(1, np.uint32)
    program = Program(kernel(body + "st.global.u32 [%rd1], %r1;", declared))
    execute(program, (1,), (1,), [memory.add("a", out)], memory=memory)
    assert out[0] == 8


def test_an_error_in_a_running_statement_is_its_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(t: Translator, row: PtxInstruction) -> None:
        t.emit("x0 = None + u32(1)")

    handlers = {**program_module.HANDLERS, "brkpt": broken}
    monkeypatch.setattr(program_module, "HANDLERS", handlers)
    text = kernel("mov.u32 %r1, 1;\nst.global.u32 [%rd1], %r1;\nbrkpt;")
    with pytest.raises(Malformed, match="line 12 is malformed: brkpt;") as caught:
        run(text)
    assert text.split("\n")[caught.value.place.line - 1] == "brkpt;"
    assert caught.value.written


def test_parameters_have_at_most_what_the_isa_allows() -> None:
    with pytest.raises(LaunchError, match="1,073,741,824 bytes of parameters"):
        Program(kernel("", parameters=".param .align 8 .b8 a[1073741824]"))


def test_variables_are_bounded_in_sum() -> None:
    declared = "".join(f".global .b8 g{n}[1073741820];\n" for n in range(3))
    with pytest.raises(LaunchError, match="variables of its module have 3,221,225,460 bytes"):
        run(kernel("", declared))


def test_inputs_and_variables_take_of_one_budget() -> None:
    program = Program(kernel("", ".global .b8 g[65536];"))
    inputs = make_inputs(program, ["a"], None, InputOptions(arrays={"a": np.ones(4096, np.uint8)}))
    left = inputs.memory.budget.left
    assert left == inputs.memory.budget.total - 4096
    execute(program, (1,), (1,), inputs.arguments, memory=inputs.memory)
    assert inputs.memory.budget.left == left - 65536


def test_a_budget_of_seconds_ends_a_launch() -> None:
    spin = kernel("L:\nld.volatile.global.u32 %r1, [%rd1];\nmov.u64 %rd2, %clock64;\nbra L;")
    with pytest.raises(OutOfBudget, match="stopped after 0 seconds") as caught:
        run(spin, seconds=0)
    assert caught.value.seconds == 0
    with pytest.raises(OutOfBudget, match="10,000,000 lane-instructions"):
        run(spin, seconds=1e6)


PRINT = (
    ".local .align 8 .b8 zeros[64]; mov.u64 %rd3, fmt; mov.u64 %rd4, zeros;\n"
    "st.param.b64 [pf], %rd3; st.param.b64 [pa], %rd4; call.uni vprintf, (pf, pa);"
)


def printing(form: str) -> str:
    data = ", ".join(str(byte) for byte in (*form.encode(), 0))
    return kernel(PRINT, f".global .align 1 .b8 fmt[{len(form) + 1}] = {{{data}}};")


def test_a_printed_field_is_as_wide_as_its_format_says_up_to_a_bound() -> None:
    assert set(run(printing("%6d|%-3d|%.2f"))) == {"     0|0  |0.00"}
    assert {len(text) for text in run(printing("%999999999d"))} == {4096}


def test_printing_stops_to_be_kept_and_says_so() -> None:
    printed = run(printing("%4000d" * 1000))
    assert sum(map(len, printed)) < 1 << 25
    assert "no more of it is kept" in printed[-1]


def tensor_map(**fields: str) -> str:
    values = {
        "global_address": "%rd1", "rank": "1", "box_dim": "16", "global_dim": "64",
        "global_stride": "256", "element_stride": "1", "elemtype": "7", "interleave_layout": "0",
        "swizzle_mode": "0", "fill_mode": "0",
    } | fields  # fmt: skip
    rows = ["setp.ne.u32 %p1, %r1, 0;", "@%p1 bra L;", "cvta.shared.u64 %rd3, 0;"]
    for field, value in values.items():
        wide = field in ("global_address", "global_stride")
        bits, register = ("b64", "%rd5") if wide else ("b32", "%r5")
        dimensions = {"global_stride": ("0,",)}.get(field, ("0,", "1,"))
        rows.append(f"mov.{bits} {register}, {value};")
        several = field.endswith(("dim", "stride"))
        for dimension in dimensions if several else ("",):
            operands = f"[sm], {dimension} {register}"
            rows.append(f"tensormap.replace.tile.{field}.shared::cta.b1024.{bits} {operands};")
    rows += [
        "mbarrier.init.shared.b64 [sm+3072], 1;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[sm+1024], [%rd3, {%r7, %r7}], [sm+3072];",
        "L:",
    ]
    return kernel("mov.u32 %r1, %tid.x; mov.u32 %r7, 0;\n" + "\n".join(rows))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"box_dim": "0xffffffff"}, "of which there are 4,096 bytes"),
        ({"box_dim": "256"}, "of which there are 4,096 bytes"),
        ({"global_address": "0xfffffffffffffff0"}, "beyond every device"),
        ({"elemtype": "0", "fill_mode": "1"}, "fills with NaN"),
    ],
)
def test_a_tensor_map_that_no_device_takes_is_a_fault(fields: dict[str, str], reason: str) -> None:
    run(tensor_map())
    with pytest.raises(Exception, match=reason) as caught:
        run(tensor_map(**fields))
    assert type(caught.value).__name__ == "Fault"


def test_a_bulk_copy_of_no_bytes_copies_nothing() -> None:
    run(kernel("mov.u32 %r1, 0;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], %r1;"))


CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from inspector.base.errors import PtxviewError
from tests.execute.test_hostile import run
try:
    run(sys.stdin.read())
except PtxviewError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "text",
    [
        printing("%999999999d"),
        printing("%.99999999f"),
        printing("%*d"),
        tensor_map(box_dim="0xffffffff"),
        kernel("", "".join(f".global .b8 g{n}[1073741820];\n" for n in range(3))),
    ],
    ids=["width", "precision", "star", "box", "variables"],
)
def test_memory_of_an_execution_is_bounded(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(MEMORY_BYTES)],
        input=text, capture_output=True, text=True, cwd=ROOT, timeout=120,
        env={"OPENBLAS_NUM_THREADS": "1", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_child_could_not_take_more() -> None:
    script = "import resource,sys;n=int(sys.argv[1]);resource.setrlimit(resource.RLIMIT_AS,(n,n))"
    command = [sys.executable, "-c", f"{script};bytearray(n)", str(MEMORY_BYTES)]
    assert b"MemoryError" in subprocess.run(command, capture_output=True, check=False).stderr
    assert resource.getrlimit(resource.RLIMIT_AS) != (MEMORY_BYTES, MEMORY_BYTES)
