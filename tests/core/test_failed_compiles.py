"""A kernel that Triton could not compile is told with its reason, not passed over."""

from __future__ import annotations

from inspector.capture.assemble import Assembly


def test_the_reason_is_a_problem_of_the_recording() -> None:
    failed = {"event": "triton_failed", "name": "matmul", "error": "ValueError: odd tile\nmore"}
    rec = Assembly(lambda digest: None).recording("r", [failed])
    assert rec.problems == ("Triton could not compile matmul: ValueError: odd tile",)
    assert rec.kernels == ()
