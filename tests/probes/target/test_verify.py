"""PTX against Python: sound kernels agree, and a kernel whose PTX was changed does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.probes.conftest import Outcome, Run, ok
from tests.probes.target.test_values import GLUON, HEAD, READ

VERIFY = {"PTXVIEW_VERIFY": "1"}
# Nothing of these is rounded differently: integers, memory, conversions, single operations.
EXACT = {
    "histogram_kernel", "transpose_kernel", "sort_kernel", "convert_kernel", "small_floats_kernel",
    "scatter_kernel", "locked_kernel",
}  # fmt: skip

# Triton's own last step, with its text changed: a compiler that is wrong.
WRONG = (
    HEAD
    + """
import json, re
from triton.backends.nvidia.compiler import CUDABackend
CHANGE = json.loads('''{change}''')
compiled = CUDABackend.make_ptx
def make_ptx(self, *args, **given):
    text = compiled(self, *args, **given)
    changed = re.sub(CHANGE[0], CHANGE[1], text, count=1)
    assert changed != text, text
    return changed
CUDABackend.make_ptx = make_ptx
torch.manual_seed(0)
"""
)


def last(done: Outcome) -> dict[tuple[str, str], dict[str, Any]]:
    """The final count of each variant."""
    return {(e["name"], e["hash"]): e for e in done.of("verified")}


def changed(pattern: str, replacement: str, program: str) -> str:
    text = json.dumps([pattern, replacement]).replace("\\", "\\\\")
    return WRONG.format(change=text) + program


def ptx_of(done: Outcome, tmp_path: Path, name: str) -> list[str]:
    """The lines of the PTX that was recorded of a kernel."""
    (event,) = [e for e in done.of("triton") if e["name"] == name]
    files = event["files"]
    digest = next(d for f, d in files.items() if f.endswith("ptx"))
    (blob,) = tmp_path.glob(f"recording*/blobs/{digest}")
    return blob.read_text().split("\n")


def test_sound_kernels_agree(forked: Run) -> None:
    done = ok(forked("verified.py", env=VERIFY))
    counts = last(done)
    assert done.out == "done\n", "values are those of one run, not of two"
    assert not done.of("differs")
    assert len(counts) >= 20
    for (name, _), count in counts.items():
        assert count["unverified"] == {}, (name, count)
        assert count["agree"] == count["launches"] == 1, (name, count)
        assert name not in EXACT or count["identical"] == 1, name
        if count["worst"] is not None:
            assert 0 < count["worst"]["ulps"] <= count["worst"]["bound_ulps"] * 1.000001
    # The tensor cores cut fp32 to ten bits: those differ, and by no more than that.
    assert any(c["worst"] and c["worst"]["ulps"] > 100 for c in counts.values())


def test_descriptors_and_constructs_agree(forked: Run) -> None:
    for program in ("descriptors.py", "constructs.py"):
        done = ok(forked(program, env=VERIFY))
        counts = last(done)
        assert counts and not done.of("differs"), done.of("differs")
        assert all(c["agree"] == c["launches"] for c in counts.values()), counts


ROWS = """
@triton.jit
def rows_kernel(out, x, w, n, stride, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    share = tl.exp(v - tl.max(v, 0))
    share = share / tl.sum(share, 0)
    scaled = share * tl.load(w + i, mask=i < n, other=0.0) - 0.5
    tl.store(out + row * n + i, scaled, mask=i < n)
n, stride, rows = 100, 104, 37
x, w = torch.randn(rows, stride).cuda(), torch.rand(n).cuda()
out = torch.full((rows + 2, n), 7.0, device="cuda")
want = torch.full((rows + 2, n), 7.0, dtype=torch.float64)
want[:rows] = x.cpu()[:, :n].double().softmax(-1) * w.cpu().double() - 0.5
try:
    rows_kernel[(rows,)](out, x, w, n, stride, block=128)
    print(json.dumps([out.tolist(), want.tolist()]))
except RuntimeError as error:
    print(json.dumps(str(error)))
"""
STORE = "tl.store(out + row * n + i, scaled, mask=i < n)"


def test_the_harness_changes_nothing_else(forked: Run, tmp_path: Path) -> None:
    """A change of a comment: the kernel is sound."""
    text = changed("//", "// changed", ROWS)
    done = ok(forked(text, env={**VERIFY, "TRITON_CACHE_DIR": str(tmp_path / "triton")}))
    (count,) = last(done).values()
    assert count["agree"] == 1 and not done.of("differs")


@pytest.mark.parametrize(
    ("pattern", "replacement", "kind", "beside"),
    [
        (r"@%p\d+ (st\.global)", r"\1", "extra", 0),
        (r"@(%p\d+) st\.global", r"@!\1 st.global", "value", 0),
        (r"sub\.f32 *\t*(%r\d+), (%r\d+), (%r\d+);", r"sub.f32 \1, \3, \2;", "value", 0),
        (r"div\.full\.f32 *\t*(%r\d+), (%r\d+), (%r\d+);", r"div.full.f32 \1, \3, \2;", "value", 0),
        (r"(st\.global\.b32 \[ %rd\d+ \+ )0", r"\g<1>4", "value", 1),
        (r"ex2\.approx", "lg2.approx", "value", 0),
        (r"(?s)(add\.f32.*?), 8, 31, -1", r"\1, 4, 31, -1", "value", 0),
    ],
    ids=["no mask of the store", "the other lanes", "swapped operands", "swapped quotient",
         "off by one", "another function", "another lane of a sum"],
)  # fmt: skip
def test_a_change_of_the_ptx_is_found_and_named(
    forked: Run, tmp_path: Path, pattern: str, replacement: str, kind: str, beside: int
) -> None:
    text = changed(pattern, replacement, ROWS)
    done = ok(forked(text, env={**VERIFY, "TRITON_CACHE_DIR": str(tmp_path / "triton")}))
    (told,), (count,) = done.of("differs"), last(done).values()
    assert (count["differ"], count["agree"], count["unverified"]) == (1, 0, {})
    assert told["kind"] == kind and told["tensor"] == "out"
    # The line of the PTX, as it was recorded, is the store.
    line = ptx_of(done, tmp_path, "rows_kernel")[told["line"] - 1]
    assert "st.global" in line and told["statement"] in line
    assert told["source"] == f"program.py:{_line_of(tmp_path)}: {STORE}"
    out, want = json.loads(done.out)
    row, column = told["index"]
    place = row * 100 + column
    assert told["block"][0] * 100 + told["thread"][0] == place - beside
    if kind == "value":
        assert told["python"] == told["source"]
        assert told["python_value"] == pytest.approx(want[row][column], abs=1e-6)
        assert not abs(float(told["ptx_value"]) - told["python_value"]) <= told["bound"]
    else:
        assert told["python_value"] is None
    # The program goes on with what the PTX gave.
    wrong = sum(
        not abs(a - b) <= 1e-6
        for got, right in zip(out, want, strict=True)
        for a, b in zip(got, right, strict=True)
    )
    assert told["elements"] >= wrong > 0
    assert f"{told['elements']} elements differ" in told["text"]


def _line_of(tmp_path: Path) -> int:
    text = (tmp_path / "program.py").read_text().split("\n")
    return next(n for n, line in enumerate(text, 1) if STORE in line)


def test_a_mask_that_is_gone_from_a_load_is_a_fault_of_the_ptx_alone(
    forked: Run, tmp_path: Path
) -> None:
    text = changed(r"@%p\d+ (ld\.global)", r"\1", ROWS)
    done = ok(forked(text, env={**VERIFY, "TRITON_CACHE_DIR": str(tmp_path / "triton")}))
    (told,) = done.of("differs")
    assert told["kind"] == "fault"
    line = ptx_of(done, tmp_path, "rows_kernel")[told["line"] - 1]
    assert "ld.global" in line and "@" not in line
    assert told["block"] == [36, 0, 0] and told["thread"] == [104, 0, 0]
    assert "v = tl.load(x + row * stride + i" in told["source"]
    assert "just past the end of x, float32 [37, 104]" in told["text"]
    assert "illegal memory access" in json.loads(done.out), "the program sees what a GPU says"


def test_every_change_that_shows_in_the_result_is_found(forked: Run) -> None:
    """Changes of one line each. Those that are not found change no bit, or, of softmax,
    which maximum is taken away from all, one unit in the last place."""
    done = ok(forked("mutated.py", "50", env=VERIFY))
    found, equal, others = json.loads(done.out)
    assert found + equal + len(others) >= 70 and found > 40
    assert all(name == "rows_kernel" and apart < 1e-7 for name, _, _, apart in others), others


STEPS = """
@triton.jit
def steps_kernel(half, brain, total, whole, x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(half + i, a.to(tl.float16))
    tl.store(brain + i, b.to(tl.bfloat16))
    tl.store(total + i, a + b)
    tl.store(whole + i, (a * 100).to(tl.int32))
x, y = torch.randn(128).cuda(), torch.randn(128).cuda()
half, brain = (torch.zeros(128, device="cuda", dtype=k) for k in (torch.float16, torch.bfloat16))
total, whole = torch.zeros(128, device="cuda"), torch.zeros(128, device="cuda", dtype=torch.int32)
steps_kernel[(1,)](half, brain, total, whole, x, y, 128)
"""


@pytest.mark.parametrize(
    ("pattern", "replacement", "tensor"),
    [
        (r"cvt\.rn\.f16", "cvt.rz.f16", "half"),
        (r"cvt\.rn\.bf16", "cvt.rz.bf16", "brain"),
        (r"add\.f32", "add.rz.f32", "total"),
        (r"cvt\.rzi\.s32", "cvt.rni.s32", "whole"),
        (r"(cvt\.rn\.f16\.f32[^;]*;)", r"\1", None),
    ],
    ids=["fp16", "bf16", "sum", "integer", "none"],
)
def test_a_wrong_rounding_is_found(
    forked: Run, tmp_path: Path, pattern: str, replacement: str, tensor: str | None
) -> None:
    """One unit in the last place is enough where nothing lets it differ."""
    if tensor is None:
        pattern, replacement = "//", "// no change"
    text = changed(pattern, replacement, STEPS)
    done = ok(forked(text, env={**VERIFY, "TRITON_CACHE_DIR": str(tmp_path / "triton")}))
    (count,) = last(done).values()
    if tensor is None:
        assert count["identical"] == 1
        return
    (told,) = done.of("differs")
    assert told["tensor"] == tensor and told["bound"] in (0.0, None)
    assert 20 < told["elements"] < 108, "half of the numbers round the other way"
    assert told["ptx_value"] != told["python_value"]
    assert told["ptx_value"] == pytest.approx(told["python_value"], rel=0.01, abs=1)


def test_a_store_that_is_gone_is_named_by_the_python(forked: Run, tmp_path: Path) -> None:
    text = changed(r"st\.global\.v?\d?\.?b16 [^;]*;", "", STEPS)
    done = ok(forked(text, env={**VERIFY, "TRITON_CACHE_DIR": str(tmp_path / "triton")}))
    (told,) = done.of("differs")
    assert told["kind"] == "missing" and told["tensor"] in ("half", "brain")
    assert f"tl.store({told['tensor']} + i" in told["python"]
    assert told["ptx_value"] is None and told["python_value"] is not None


def test_the_kernels_of_a_compiled_graph_are_verified_where_they_run(forked: Run) -> None:
    program = """
import torch
def model(x):
    return torch.softmax(torch.nn.functional.gelu(x), -1)
print(torch.compile(model)(torch.randn(33, 64, device="cuda")).sum().round().item())
"""
    done = ok(forked(program, values="ptx", env=VERIFY, inductor=True))
    (count,) = last(done).values()
    assert count["agree"] == count["launches"] >= 1 and not done.of("differs")
    assert done.out == "33.0\n"
    # Operator by operator no kernel runs: nothing is claimed of it.
    done = ok(forked(program, env=VERIFY, inductor=True))
    assert not done.of("verified")
    assert any("--values ptx runs the kernels" in event["text"] for event in done.of("problem"))


def test_what_cannot_be_verified_is_counted_and_not_passed(forked: Run) -> None:
    done = ok(forked(
        HEAD
        + GLUON
        + READ
        + """
@triton.jit
def says_kernel(x):
    tl.device_print("x is", tl.load(x))
    tl.store(x, tl.load(x))
@triton.jit
def long_kernel(out, n):
    total = tl.zeros((), tl.float32)
    for i in range(n):
        total = tl.sqrt(total + i)
    tl.store(out, total)
@triton.jit
def unsure_kernel(out, x, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.exp(tl.load(x + i))
    tl.store(out + i, tl.where(v / tl.sum(v) * n > 1.0, 1, 0))
x, out = torch.ones(128, device="cuda"), torch.zeros(1, device="cuda")
says_kernel[(1,)](x)
the_kernel[(1,)](torch.zeros(128, device="cuda"), x)
long_kernel[(1,)](out, 3000)
print(out.item())
signs = torch.zeros(128, device="cuda", dtype=torch.int32)
unsure_kernel[(1,)](signs, x, 128)
""",
        env=VERIFY,
        seconds=0.2,
    ))  # fmt: skip
    counts = {name: count for (name, _), count in last(done).items()}
    assert not done.of("differs")
    # What a kernel prints it prints once, and its values are those of the PTX.
    assert counts["says_kernel"]["agree"] == 1 and done.out.count("x is") == 1
    (why,) = counts["the_kernel"]["unverified"]
    assert "written in Gluon" in why
    (why,) = counts["long_kernel"]["unverified"]
    assert "interpreting it would take more than the time allowed" in why
    assert float(done.out.split()[-1]) > 0, "the PTX ran, and its value is there"
    # exp(1)/(128 exp(1)) is 1 but for rounding: whichever way it falls, nothing is said of it.
    unsure = counts["unsure_kernel"]
    assert unsure["differ"] == 0 and (unsure["identical"] or unsure["unverified"])


def test_an_assertion_of_the_kernels_own_is_made_and_its_values_are_verified(forked: Run) -> None:
    done = ok(forked(
        HEAD
        + """
@triton.jit
def table_kernel(out, x, at, n: tl.constexpr):
    i = tl.arange(0, n)
    place = tl.load(at + i)
    tl.device_assert(place < n, "index out of bounds")
    tl.store(out + i, tl.load(x + place))
x, out = torch.randn(64, device="cuda"), torch.zeros(64, device="cuda")
at = torch.arange(63, -1, -1, device="cuda")
table_kernel[(1,)](out, x, at, 64)
print(torch.equal(out.cpu(), x.cpu().flip(0)))
at[3] = 64
try:
    table_kernel[(1,)](out, x, at, 64)
except AssertionError as error:
    print(error)
print(torch.equal(out.cpu(), x.cpu().flip(0)))
""",
        env=VERIFY,
    ))  # fmt: skip
    assert done.out.splitlines() == ["True", "index out of bounds", "True"]
    (count,) = last(done).values()
    assert (count["agree"], count["launches"]) == (1, 1)


def test_what_the_interpreter_rounds_to_eight_bits_is_what_torch_does(forked: Run) -> None:
    done = ok(forked(
        HEAD
        + """
@triton.jit
def small_kernel(x, a, b, back, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i)
    tl.store(a + i, v.to(tl.float8e4nv))
    tl.store(b + i, v.to(tl.float8e5))
    tl.store(back + i, v.to(tl.float8e5).to(tl.float16))
x = torch.cat([torch.randn(2000), torch.linspace(-448, 448, 2000), torch.tensor(
    [0.0, -0.0, 0.49999, 2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 447.9, -447.9]), torch.zeros(88)]).cuda()
a, b = (torch.zeros(4096).to(kind).cuda() for kind in (torch.float8_e4m3fn, torch.float8_e5m2))
back = torch.zeros(4096, dtype=torch.float16).cuda()
small_kernel[(1,)](x, a, b, back, 4096)
for got, kind in ((a, torch.float8_e4m3fn), (b, torch.float8_e5m2)):
    print((got.cpu().view(torch.uint8) == x.cpu().to(kind).view(torch.uint8)).all().item())
print((back.cpu() == x.cpu().to(torch.float8_e5m2).half()).all().item())
""",
        values="interpreter",
    ))  # fmt: skip
    assert done.out.split() == ["True"] * 3
