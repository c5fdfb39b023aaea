"""``ptxview verify`` of a recording with a planted fault, and of values that are made up here."""

import json
from pathlib import Path

from tests.helpers.ptxview import call

DATA = Path(__file__).parents[1] / "data" / "verify"
LOST_SCALE = str(DATA / "lost_scale.ptxview")


def test_a_kernel_with_a_fault_is_named_and_one_without_is_not() -> None:
    done = call("verify", LOST_SCALE, "--json")
    assert done.status == 1
    document = json.loads(done.text)
    assert document["passed"] is False
    softmax, gelu = (graph["kernels"][0] for graph in document["graphs"])
    assert softmax["verdict"] == "unexplained"
    first = softmax["first"]
    assert first["output"] == "out_ptr2"
    # The kernel lost the factor 2.
    assert abs(first["value"] / first["reference"] - 0.5) < 1e-6
    # The store of the quotient: PTX, the machine code that came of it, and the line of the program.
    lines = softmax["lines"]
    assert "st.global" in _line("ptx", lines["ptx"])
    assert "STG" in _line("sass", lines["sass"])
    assert lines["source"].endswith("return torch.softmax(x, -1) * 2")
    assert gelu["verdict"] == "closer-than-eager"
    assert gelu["first"] is None


def _line(stage: str, number: int) -> str:
    kernel = "triton_per_fused__softmax_mul_prepare_softmax_online_0"
    shown = call("show", LOST_SCALE, kernel, "--stage", stage)
    return shown.text.splitlines()[number - 1]


def test_one_graph_can_be_chosen() -> None:
    done = call("verify", LOST_SCALE, "0/0#2")
    assert done.status == 0
    assert done.text.splitlines()[-1] == "graph 0/0#2: 1 of 1 kernel explained"


def test_a_recording_without_values_says_how_to_get_them() -> None:
    done = call("verify", str(Path(__file__).parents[1] / "data" / "core" / "lecture"))
    assert done.status == 2
    assert "ptxview verify SCRIPT.py" in done.said
