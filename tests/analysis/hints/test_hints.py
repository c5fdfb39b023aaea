"""Hints on compiled kernels: each fires on what has its fault, and not on the twin without it."""

import re

import msgspec.structs
import pytest

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.rules import RULES
from inspector.analysis.hints.subject import HintSubject
from inspector.base.model import Argument, Call, Kernel, Origin, Resources, Stage, Variant
from inspector.parsers import parse
from tests.helpers.hint_data import H200, everything, findings, pairs, rules

CUDA = {
    "spilled": {"spills"}, "kept": set(),
    "indexed": {"local-memory"}, "selected": set(),
    "narrow": {"narrow-access"}, "wide": set(),
    "down_columns": {"uncoalesced-layout"}, "along_rows": set(),
    "unpadded": {"bank-conflicts"}, "padded": set(),
    "waiting": {"early-wait"}, "ahead": set(),
    "divided": {"slow-division"}, "by_rows": set(),
    "treed": {"barrier-in-loop"}, "shuffled": set(),
    "called": {"uninlined-call"}, "inlined": set(),
}  # fmt: skip

SMALL = {"small-grid"}
TRITON = [
    ("scale_kernel", {"num_warps": 8}, {"masked-lanes"}),
    ("scale_kernel", {"num_warps": 4, "columns": 781}, {"narrow-access", "masked-lanes"}),
    ("scale_kernel", {"num_warps": 4, "columns": 1024}, set()),
    ("scale_kernel", {"num_warps": 4, "columns": "strided"}, {"uncoalesced-layout"}),
    ("few_lanes", {"num_warps": 4}, {"idle-lanes"}),
    ("few_lanes", {"num_warps": 1}, set()),
    ("dot_kernel", {"PRECISION": "ieee"}, SMALL | {"no-tensor-cores"}),
    ("dot_kernel", {"PRECISION": "tf32", "TURNED": False}, SMALL),
    ("dot_kernel", {"PRECISION": "tf32", "TURNED": True}, SMALL | {"bank-conflicts"}),
    ("row_sums", {}, {"barrier-in-loop"}),
    ("row_sums_after", {}, set()),
    ("crowded", {"num_warps": 1}, set()),  # four blocks an SM, which holds twelve
    ("crowded", {"num_warps": 16}, set()),
    ("crowded", {"num_warps": 8}, {"tail-effect"}),
]  # fmt: skip


@pytest.mark.parametrize("name", CUDA)
def test_cuda_kernel_has_its_hints_and_no_others(name: str) -> None:
    assert rules(pairs(name)) == CUDA[name]


def label(value: object) -> str:
    """The same in every process, which the order of a set is not."""
    return (", ".join(sorted(value)) if isinstance(value, set) else str(value))[:40]


@pytest.mark.parametrize(("name", "config", "wanted"), TRITON, ids=label)
def test_triton_kernel_has_its_hints_and_no_others(
    name: str, config: dict[str, object], wanted: set[str]
) -> None:
    assert rules(pairs(name, **config)) == wanted


def test_every_rule_has_a_specimen_that_triggers_it() -> None:
    seen = set[str]().union(*(rules(subject) for subject in everything()))
    # gelu_cuda is a specimen of the first, a larger launch of crowded one of the second.
    assert seen | {"fp64-promotion", "low-occupancy"} == set(RULES)


def test_findings_point_at_instructions_and_are_three_sentences() -> None:
    subjects = list(everything())
    assert sum(len(findings(subject)) for subject in subjects) > len(RULES)
    for subject in subjects:
        check_findings(subject)


def check_findings(subject: HintSubject) -> None:
    for finding in findings(subject).values():
        assert finding.severity in ("info", "hint", "warn")
        sentences = re.findall(r"[.!?](?: |$)", finding.text)
        assert 2 <= len(sentences) <= 3, finding.text
        for stage, lines in finding.lines.items():
            function = subject.functions[stage]
            assert function is not None
            assert all(function.first <= n <= function.last for n in lines)
            assert all(subject.listings[stage].lines[n - 1].opcode for n in lines)
    wanted = {f.rule for f in findings(subject).values()} - {
        "small-grid", "tail-effect", "low-occupancy"}  # fmt: skip
    for rule in wanted:
        assert any(findings(subject)[rule].lines.values()), rule


def test_spills_are_the_assemblers_figures_and_its_lines() -> None:
    finding = findings(pairs("spilled"))["spills"]
    assert "384 bytes of spill stores and 448 of spill loads" in finding.text
    listing = pairs("spilled").listings[Stage.SASS]
    lines = [listing.lines[n - 1] for n in finding.lines[Stage.SASS]]
    assert {line.base for line in lines} == {"LDL", "STL"}
    # 384 bytes stored: what the marked stores say, added up.
    stored = 0
    for line in lines:
        width = re.search(r"\.(64|128)\b", line.opcode or "")
        if line.base == "STL":
            stored += int(width[1]) // 8 if width else 4
    assert stored == 384


def test_a_column_is_32_sectors_and_narrow_is_eight_accesses_for_two() -> None:
    text = findings(pairs("down_columns"))["uncoalesced-layout"].text
    assert "touches 32 sectors of 32 bytes for data that fill 4" in text
    assert "unless the argument" in text
    strided = pairs("scale_kernel", num_warps=4, columns="strided")
    assert "unless" not in findings(strided)["uncoalesced-layout"].text
    assert "8 accesses of 4 bytes" in findings(pairs("narrow"))["narrow-access"].text
    assert "2 of 16 bytes would do" in findings(pairs("narrow"))["narrow-access"].text


def test_conflicts_are_counted_for_the_blocks_shape() -> None:
    subject = pairs("unpadded")
    call = Call("extension", "unpadded", grid=(12, 12, 1), block=(32, 32, 1))
    known = msgspec.structs.replace(subject, calls=(call,))
    assert ", 32-way in the worst" in findings(known)["bank-conflicts"].text
    unknown = msgspec.structs.replace(subject, calls=())
    assert "at least 8-way" in findings(unknown)["bank-conflicts"].text
    assert "8-way" in findings(pairs("dot_kernel", PRECISION="tf32", TURNED=True))[
        "bank-conflicts"].text  # fmt: skip


def test_masked_lanes_are_counted_in_the_launch() -> None:
    subject = pairs("scale_kernel", num_warps=4, columns=781)
    assert "781 of the 1,024 elements" in findings(subject)["masked-lanes"].text
    assert "estimate" not in findings(subject)["masked-lanes"].text
    assert "masked-lanes" not in rules(msgspec.structs.replace(subject, calls=()))
    almost = Call("triton", "scale_kernel", grid=(4, 1, 1), block=(128, 1, 1),
                  arguments=(Argument("n_cols", "i32", 900),))  # fmt: skip
    assert "masked-lanes" not in rules(msgspec.structs.replace(subject, calls=(almost,)))


def launched(blocks: int, **resources: int) -> HintSubject:
    """Blocks of 128 threads and 32 registers: 16 an SM, 2112 on 132 SMs."""
    known = {"registers": 32, "static_shared_bytes": 0, "dynamic_shared_bytes": 0, **resources}
    variant = Variant("", "", "k")
    kernel = Kernel("k", "k", "k", Origin.TRITON, (variant,))
    call = Call("triton", "k", grid=(blocks, 1, 1), block=(128, 1, 1))
    return HintSubject(kernel, variant, Resources(**known), calls=(call,), device=H200)


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        (131, {"small-grid"}),
        (132, set()),  # sized for the device
        (1055, {"small-grid"}),
        (1057, set()),
        (2113, {"tail-effect"}),
        (3379, {"tail-effect"}),
        (3380, set()),
    ],
)
def test_a_last_wave_that_leaves_sms_idle_is_a_hint(blocks: int, wanted: set[str]) -> None:
    assert rules(launched(blocks)) == wanted


def test_few_registers_do_not_help_a_grid_of_less_than_one_wave() -> None:
    assert rules(launched(8, registers=168)) == {"small-grid"}
    assert "low-occupancy" in rules(launched(132 * 64, registers=168))


@pytest.mark.parametrize(
    ("blocks", "elements", "severe"),
    [(1, None, False), (2, None, True), (2, 64, False), (1, 1 << 20, True)],
)
def test_a_small_grid_is_no_warning_where_there_is_little_to_do(
    blocks: int, elements: int | None, severe: bool
) -> None:
    subject = launched(blocks)
    tensors = () if elements is None else (Argument("x", dtype="float32", shape=(elements,)),)
    calls = (msgspec.structs.replace(subject.calls[0], arguments=tensors),)
    subject = msgspec.structs.replace(subject, calls=calls)
    assert findings(subject)["small-grid"].severity == ("warn" if severe else "info")


@pytest.mark.parametrize(
    ("resources", "limiter"),
    [({"registers": 168}, "registers"), ({"dynamic_shared_bytes": 80_000}, "shared memory")],
)
def test_low_occupancy_names_what_limits_it_and_what_would_help(
    resources: dict[str, int], limiter: str
) -> None:
    text = findings(launched(132 * 64, **resources))["low-occupancy"].text
    assert f"limited by {limiter}" in text
    assert "instead of" in text


def test_kernels_on_the_tensor_cores_may_have_few_warps() -> None:
    text = (
        ".visible .entry k()\n{\n.reg .b32 %r<9>;\n"
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8},"
        " {%r5,%r6}, {%r1,%r2,%r3,%r4};\nret;\n}\n"
    )
    subject = launched(132 * 64, registers=255)
    assert "low-occupancy" in rules(subject)
    listing = parse(Stage.PTX, text)
    facts = {Stage.PTX: FunctionFacts(listing, listing.functions[0])}
    tensor = msgspec.structs.replace(subject, facts=facts)
    assert "low-occupancy" not in rules(tensor)


@pytest.mark.parametrize(("threads", "fires"), [(20, True), (33, True), (96, False), (1023, False)])
def test_blocks_that_do_not_fill_their_warps(threads: int, fires: bool) -> None:
    call = Call("extension", "k", grid=(10_000, 1, 1), block=(threads, 1, 1))
    subject = msgspec.structs.replace(launched(1, registers=16), calls=(call,))
    assert ("idle-lanes" in rules(subject)) is fires


CUDA_CPP = re.compile(
    r"\b__\w+|use_fast_math|-prec-div|template parameter|maxrregcount|-dlto|C\+\+|threadIdx|"
    r"float4|0\.5f"
)
KERNEL_CODE = re.compile(r"\btl\.|num_warps=|num_stages|\bmaxnreg\b")


def spoken(subject: HintSubject, origin: Origin) -> dict[str, str]:
    """The hints' texts of a kernel, were it of this origin."""
    kernel = msgspec.structs.replace(subject.kernel, origin=origin)
    found = findings(msgspec.structs.replace(subject, kernel=kernel))
    return {rule: finding.text for rule, finding in found.items()}


def test_advice_names_nothing_that_the_kernels_language_lacks() -> None:
    rules_of_triton: set[str] = set()
    for subject in everything():
        for rule, text in spoken(subject, Origin.TRITON).items():
            assert not CUDA_CPP.search(text), (rule, text)
            rules_of_triton.add(rule)
        for rule, text in spoken(subject, Origin.INDUCTOR).items():
            assert not CUDA_CPP.search(text), (rule, text)
            assert rule == "no-tensor-cores" or not KERNEL_CODE.search(text), (rule, text)
    assert {"slow-division", "early-wait", "uninlined-call", "spills"} <= rules_of_triton


def test_advice_for_a_division_of_floats_never_changes_what_inductor_meant() -> None:
    text = parse(
        Stage.PTX,
        ".visible .entry k()\n{\n\tld.global.f32 %f1, [%rd1];\n"
        + "\tdiv.rn.f32 %f3, %f1, %f2;\n\tst.global.f32 [%rd1], %f3;\n\tret;\n}\n",
    )
    (function,) = text.functions
    kernel = Kernel("k", "k", "k", Origin.INDUCTOR, (Variant("", "", "k"),))
    facts = {Stage.PTX: FunctionFacts(text, function)}
    subject = HintSubject(
        kernel, kernel.variants[0], listings={Stage.PTX: text}, functions={Stage.PTX: function},
        facts=facts,
    )  # fmt: skip
    wanted = {
        Origin.INDUCTOR: "Inductor chose IEEE division, because an approximation would change",
        Origin.TRITON: "use `/` of fp32",
        Origin.NVCC: "-use_fast_math",
        Origin.FILE: "Multiply by the reciprocal",
    }
    for origin, words in wanted.items():
        assert words in spoken(subject, origin)["slow-division"]
