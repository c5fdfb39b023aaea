"""``ptxview verify`` of a recording with a planted fault, and of values that are made up here."""

import hashlib
import json
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inspector.commands.common import open_reader
from inspector.recording.layout import VERDICTS, record_file, stored_records
from inspector.verify.kept import kept_verdicts, verdicts_of_kernels
from inspector.verify.verdicts import Verdict
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import LOST_SCALE, SAMPLE, Done, call, ptxview, saved
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures

Verify = Callable[..., Done]
SOFTMAX = "triton_per_fused__softmax_mul_prepare_softmax_online_0"
GELU = "triton_poi_fused_add_gelu_0"


@pytest.fixture
def verify(plain_python: Callable[..., str]) -> Verify:
    """``verify(recording, …)``: the command, whose child is one of an interpreter with torch."""
    python = plain_python("torch", "torch._inductor.inductor_prims")
    return partial(call, "verify", "--python", python)


def test_a_kernel_with_a_fault_is_named_and_one_without_is_not(
    lost_scale: Path, verify: Verify
) -> None:
    done = verify(lost_scale, "--json")
    assert done.status == 1
    document = json.loads(done.text)
    assert document["passed"] is False
    softmax, gelu = (graph["kernels"][0] for graph in document["graphs"])
    assert softmax["verdict"] == "unexplained"
    first = softmax["first"]
    assert first["output"] == "out_ptr2"
    # The kernel lost the factor 2.
    assert abs(first["value"] / first["reference"] - 0.5) < 1e-6
    # The store of the quotient: PTX, its machine code, and the line of the program.
    lines = softmax["lines"]
    assert "st.global" in _line("ptx", lines["ptx"])
    assert "STG" in _line("sass", lines["sass"])
    assert lines["source"].endswith("return torch.softmax(x, -1) * 2")
    assert gelu["verdict"] == "closer-than-eager"
    assert gelu["first"] is None


def _line(stage: str, number: int) -> str:
    shown = call("show", LOST_SCALE, SOFTMAX, "--stage", stage)
    return shown.text.splitlines()[number - 1]


def test_one_graph_can_be_chosen(lost_scale: Path, verify: Verify) -> None:
    done = verify(lost_scale, "0/0#2")
    assert done.status == 0
    assert done.text.splitlines()[-1] == "graph 0/0#2: 1 of 1 kernel explained"


def kept(path: Path) -> dict[str, Verdict]:
    """The verdicts that are kept with a recording, by the name of the kernel."""
    recording = open_reader(str(path)).recording
    verdicts = verdicts_of_kernels(kept_verdicts(path, recording))
    names = {kernel.id: kernel.name for kernel in recording.kernels}
    return {names[kernel]: verdict.verdict for kernel, verdict in verdicts.items()}


def test_verdicts_are_kept_with_their_recording(lost_scale: Path, verify: Verify) -> None:
    assert kept(lost_scale) == {}
    verify(lost_scale, "0/0#2")
    assert kept(lost_scale) == {GELU: Verdict.CLOSER}
    verify(lost_scale, "0/0")
    assert kept(lost_scale) == {GELU: Verdict.CLOSER, SOFTMAX: Verdict.UNEXPLAINED}
    (_, newest) = stored_records(lost_scale, VERDICTS)
    kernels: Any = newest["kernels"]
    (row,) = kernels
    assert row["graph"] == "0/0"
    assert row["call"] == 0
    assert row["reason"] == "768 of 768 elements of mul are not explained by rounding"
    assert abs(row["max_error"] - 0.5) < 1e-3
    assert row["eager_max_error"] < 1e-6


def test_the_newest_verdict_on_the_recorded_code_counts(lost_scale: Path, verify: Verify) -> None:
    verify(lost_scale)
    file = record_file(lost_scale, VERDICTS)
    row = json.loads(file.read_text())
    for kernel in row["kernels"]:
        kernel["verdict"] = "equal"
    file.write_text(f"{file.read_text()}{json.dumps(row)}\n")
    assert set(kept(lost_scale).values()) == {Verdict.EQUAL}
    for kernel in row["kernels"]:
        kernel["variant"] = "0" * 64
    file.write_text(f"{json.dumps(row)}\n{{\n")
    assert kept(lost_scale) == {}


def test_a_list_marks_what_is_not_explained(lost_scale: Path, verify: Verify) -> None:
    def verified() -> list[str | None]:
        document = json.loads(call("list", lost_scale, "--json").text)
        return [kernel["verified"] for kernel in document["kernels"]]

    sentence = f"! kernel {SOFTMAX} is not explained by its operators: ptxview verify"
    assert verified() == [None, None, None]
    assert sentence not in call("list", lost_scale).said
    verify(lost_scale)
    assert verified() == ["unexplained", "closer-than-eager", None]
    said = call("list", lost_scale).said
    assert " ".join(said.split()).count(sentence) == 1
    assert said.count("is not explained") == 1


def test_verdicts_travel_with_a_copy(lost_scale: Path, tmp_path: Path, verify: Verify) -> None:
    """Without reasons that may quote a value, and without kernels that are not in the copy."""
    assert verify(lost_scale).status == 1
    file = record_file(lost_scale, VERDICTS)
    record = json.loads(file.read_text())
    gelu = next(row for row in record["kernels"] if row["verdict"] == "closer-than-eager")
    gelu |= {"verdict": "not-compared", "reason": "IndexError: index 50 is out of bounds"}
    file.write_text(json.dumps(record) + "\n")
    for words, verdicts, quoted in (
        ((), {GELU: Verdict.NOT_COMPARED, SOFTMAX: Verdict.UNEXPLAINED}, False),
        (("--with-inputs",), {GELU: Verdict.NOT_COMPARED, SOFTMAX: Verdict.UNEXPLAINED}, True),
        ((GELU,), {GELU: Verdict.NOT_COMPARED}, False),
        (
            ("--without", "source"),
            {GELU: Verdict.NOT_COMPARED, SOFTMAX: Verdict.UNEXPLAINED},
            False,
        ),
    ):
        copy = tmp_path / f"{len(words)}{words[-1:]}.ptxview"
        done = call("export", lost_scale, *words, "-o", copy)
        assert done.status == 0, done.said
        assert kept(copy) == verdicts, words
        assert ("index 50" in json.dumps(stored_records(copy, VERDICTS))) is quoted


def test_verdicts_that_cannot_be_kept_are_shown(lost_scale: Path, verify: Verify) -> None:
    record_file(lost_scale, VERDICTS).mkdir()
    done = verify(lost_scale, "0/0#2")
    assert done.status == 0
    assert "the verdicts are not kept" in done.said
    assert done.text.splitlines()[-1] == "graph 0/0#2: 1 of 1 kernel explained"


def _truncated(compressed: bytes) -> bytes:
    return compressed[: len(compressed) // 2]


def _larger(compressed: bytes) -> bytes:
    return zlib.compress(zlib.decompress(compressed) + bytes(1 << 20))


def _empty(_: bytes) -> bytes:
    return zlib.compress(b"")


def _damaged(
    folder: Path, parameter: str, side: str, damage: Callable[[bytes], bytes] | None
) -> Path:
    """A recording with a damaged tensor of GELU's launch, which no other launch has.

    Its name fits its content, as an attacker's would; without damage the tensor is missing.
    """
    with zipfile.ZipFile(LOST_SCALE) as recording:
        recording.extractall(folder)
    events = max(folder.glob("events-*.jsonl"), key=lambda file: file.stat().st_size)
    kept = (line for line in map(json.loads, events.open()) if line["event"] == "launch_values")
    (launch,) = (event for event in kept if event["name"] == GELU)
    (digest,) = (a[side] for a in launch["arguments"] if a["name"] == parameter)
    blob = folder / "blobs" / digest
    if damage is None:
        blob.unlink()
    else:
        content = damage(blob.read_bytes())
        name = hashlib.sha256(content).hexdigest()
        blob.with_name(name).write_bytes(content)
        events.write_text(events.read_text().replace(digest, name))
    return folder


@pytest.mark.parametrize("damage", [_truncated, _larger, None])
def test_a_damaged_tensor_is_not_compared(
    damage: Callable[[bytes], bytes] | None, tmp_path: Path, verify: Verify
) -> None:
    done = verify(_damaged(tmp_path / "x", "out_ptr0", "after", damage), "0/0#2", "--json")
    assert done.status == 0, done.said
    (graph,) = json.loads(done.text)["graphs"]
    (kernel,) = graph["kernels"]
    assert kernel["verdict"] == "not-compared"
    assert kernel["reason"] == "its kept output out_ptr0 is damaged"


def test_a_damaged_tensor_costs_its_launch_alone(tmp_path: Path, verify: Verify) -> None:
    done = verify(_damaged(tmp_path / "x", "in_ptr1", "before", _empty), "--json")
    assert done.status == 1, done.said
    softmax, gelu = (graph["kernels"][0] for graph in json.loads(done.text)["graphs"])
    assert softmax["verdict"] == "unexplained"
    assert gelu["verdict"] == "not-compared"
    assert re.fullmatch(r"its kept input \w+ is damaged", gelu["reason"])


def test_a_recording_without_values_says_how_to_get_them() -> None:
    done = call("verify", str(Path(__file__).parents[1] / "data" / "core" / "lecture"))
    assert done.status == 2
    assert "operators" in done.said


def test_a_script_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    done = call("verify", tmp_path / "missing.py")
    assert done.status == 4
    assert "does not exist" in done.said


@pytest.mark.nightly
def test_sound_kernels_that_write_no_plain_result_are_compared_and_explained(
    tmp_path: Path,
) -> None:
    # A bias that a kernel adds, a weight copied to another layout, memory that is filled before it
    # is scattered into, a store left out, a cast to fp8, a Bessel function, random integers.
    done = call(
        "verify", shutil.copy(LOST_SCALE.with_name("rare_writes.ptxview"), tmp_path), "--json"
    )
    assert done.status == 0, done.text
    kernels = [k for graph in json.loads(done.text)["graphs"] for k in graph["kernels"]]
    assert len(kernels) == 17
    assert {k["verdict"] for k in kernels} <= {
        "equal", "closer-than-eager", "summation-order", "approximation"
    }  # fmt: skip


@pytest.mark.parametrize(
    "target", ["aten.save", "aten.save.default", "aten.from_file", "aten.add.default.__class__"]
)
def test_a_recording_makes_verify_call_nothing_but_operators_without_files(target: str) -> None:
    pytest.importorskip("torch")
    from inspector.probes.verify.operators import NotComputable, function_of

    assert function_of("aten.add.Tensor") is not None
    with pytest.raises(NotComputable):
        function_of(target)


BUCKETS = """
import torch, triton, triton.language as tl

@triton.jit
def bucket_kernel(values, counts, N: tl.constexpr):
    # Out of bounds for values that are not in [0, 1).
    bucket = (tl.load(values + tl.arange(0, N)) * 8).to(tl.int32)
    tl.atomic_add(counts + bucket, 1)

values = torch.rand(64, device="cuda")
values[3] = 0.5
counts = torch.zeros(8, device="cuda", dtype=torch.int32)
bucket_kernel[(1,)](values, counts, N=64)
"""


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]) -> Path:
    """A recording of a kernel that only makes sense on the program's own values."""
    folder = tmp_path_factory.mktemp("buckets")
    path = folder / "x.ptxview"
    script = saved(folder / "buckets.py", BUCKETS)
    options = ("--no-tui", "--target", "sm_90", "--python", warm_python())
    done = ptxview("run", *options, "-o", path, script)
    assert done.status == 0, done.said
    return path


def test_a_kernel_is_traced_on_the_values_of_its_call(buckets: Path, tmp_path: Path) -> None:
    done = call("trace", buckets, "bucket_kernel")
    assert done.status == 0, done.said
    assert "values, counts as the program's call had them" in done.text
    without = tmp_path / "without.ptxview"
    assert call("export", buckets, "-o", without).status == 0
    assert "out of bounds" in call("trace", without, "bucket_kernel").text
    kept = tmp_path / "kept.ptxview"
    assert call("export", buckets, "--with-inputs", "-o", kept).status == 0
    assert call("trace", kept, "bucket_kernel").status == 0


def test_a_script_of_a_launch_has_the_values_of_its_call(
    buckets: Path, tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    script = tmp_path / "alone.py"
    written = call("repro", buckets, "bucket_kernel", "--json", "-o", script)
    assert set(json.loads(written.text)["kept_inputs"]) == {"values", "counts"}
    assert "as the program's call had them, within the script" in written.said
    options = ("--no-tui", "--target", "sm_90", "--python", warm_python())
    done = ptxview("run", *options, "-o", tmp_path / "r", script, "--no-time")
    # New values are outside of [0, 1): the kernel would write outside of its counts.
    assert done.status == 0, done.said
    assert "agrees with Triton's interpreter" in done.text


def test_ranges_of_floats_are_those_of_the_values(buckets: Path) -> None:
    (kernel,) = json.loads(call("list", buckets, "--json").text)["kernels"]
    values = kernel["variants"][0]["calls"][0]["arguments"][0]
    assert 0 <= values["low"] < 0.1 and 0.9 < values["high"] < 1
    assert values["nans"] == 0


COMPILED = """
import torch
print(torch.compile(lambda x: torch.sin(x) * 2)(torch.ones(8, device="cuda"))[0].item())
"""


@pytest.mark.nightly
def test_a_list_says_whose_values_an_emulated_graph_has(tmp_path: Path) -> None:
    script = saved(tmp_path / "compiled.py", COMPILED)
    sentence = "values are the operators', not the kernels'"
    for option, is_said in ((), True), (("--values", "ptx"), False):
        path = tmp_path / f"{bool(option)}.ptxview"
        assert ptxview("run", "--no-tui", *option, "-o", path, script).status == 0
        assert (sentence in call("list", path).text) is is_said


@pytest.mark.parametrize(
    ("kernel", "status", "words"),
    [
        ("23c30efe", 1, "NOT the same: out_ptr2"),
        nightly("triton_poi_fused_add_gelu_0", 0, "agrees with the reference"),
    ],
)
def test_a_script_shows_the_difference_alone(
    kernel: str, status: int, words: str, tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    script = tmp_path / "alone.py"
    assert call("repro", LOST_SCALE, kernel, "--verify", "-o", script).status == 0
    options = ("--no-tui", "--target", "sm_90", "--python", warm_python())
    done = ptxview("run", *options, "-o", tmp_path / "r", script, "--no-time")
    assert done.status == status, done.said
    assert words in done.text


def test_a_recording_without_values_makes_no_such_script() -> None:
    done = call("repro", SAMPLE, "softmax_kernel", "--verify")
    assert done.status == 2
    assert "ptxview verify -o x.ptxview SCRIPT.py keeps them" in done.said


RANKS = """
import os, torch
torch.manual_seed(int(os.environ["RANK"]))
def step(weight, gradient):
    weight.sub_(gradient * 0.1)
    return weight.abs()
torch.compile(step)(*torch.randn(2, 64, 64, device="cuda"))
"""


@pytest.mark.nightly
def test_launches_of_two_processes_are_told_apart(tmp_path: Path) -> None:
    """A weight that one rank's launch has changed is as it was for the other's."""
    ranks = saved(tmp_path / "rank.py", RANKS)
    both = (
        "import os, subprocess, sys\n"
        f"runs = [subprocess.Popen([sys.executable, {str(ranks)!r}], "
        "env=dict(os.environ, RANK=str(rank))) for rank in range(2)]\n"
        "sys.exit(sum(run.wait() for run in runs))\n"
    )
    script = saved(tmp_path / "both.py", both)
    done = ptxview("verify", "-o", tmp_path / "x.ptxview", "--json", script)
    assert done.status == 0, done.said
    graphs = done.json["graphs"]
    verdicts = {k["verdict"] for graph in graphs for k in graph["kernels"]}
    assert verdicts and "not-compared" not in verdicts
    assert {k["launches"] for graph in graphs for k in graph["kernels"]} == {2}


def test_a_race_between_blocks_is_named_though_the_values_are_right(
    lost_scale: Path, tmp_path: Path, verify: Verify
) -> None:
    """The recorded values are the sound kernel's; in its PTX all threads store to one place."""
    folder = tmp_path / "edited.ptxview"
    with zipfile.ZipFile(lost_scale) as archive:
        archive.extractall(folder)
    for blob in list((folder / "blobs").iterdir()):
        text = blob.read_bytes().replace(b"b32 [ %rd8 + 0 ]", b"b32 [ %rd2 + 0 ]")
        if b".entry triton_poi_fused_add_gelu_0" in text:
            name = hashlib.sha256(text).hexdigest()
            (folder / "blobs" / name).write_bytes(text)
            for events in folder.glob("*.jsonl"):
                events.write_text(events.read_text().replace(blob.name, name))
    sound = verify(lost_scale, "0/0#2", "--json").json
    assert [kernel["races"] for kernel in sound["graphs"][0]["kernels"]] == [[]]
    done = verify(folder, "0/0#2")
    assert done.status == 1
    assert "race: out_ptr0[0, 0]: no order between the store in line 169 by block" in done.text
    sentence = "graph 0/0#2: 1 of 1 kernel explained; 1 kernel with a race: #1"
    assert done.text.splitlines()[-1].startswith(sentence)
    document = json.loads(verify(folder, "0/0#2", "--json").out)
    assert document["passed"] is False
    (kernel,) = document["graphs"][0]["kernels"]
    assert kernel["verdict"] == "closer-than-eager"
    assert len(kernel["races"]) == 1
