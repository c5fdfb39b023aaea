"""Small answers: bounded summaries, some lines, some figures; compared with the whole."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from inspector.render import brief
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import SAMPLE, call, count_hints, variants_of

KERNELS = ["softmax_kernel", "ff3a7da2", "_Z11gelu_kernelPKfPfi", "ba6e6b76", "square_loop_kernel"]
BRIEF = 8000


def whole(kernel: str, *options: str) -> Any:
    return call("show", SAMPLE, kernel, *options, "--json").json


@pytest.mark.parametrize("kernel", KERNELS[:2])
def test_lines_to_look_at_are_what_they_are_said_to_be(kernel: str) -> None:
    short, long = call("show", SAMPLE, kernel, "--brief", "--json").json, whole(kernel)
    lines = {line["n"]: line for line in long["lines"]}
    peaks = [h for h in short["hottest"] if h["by"] == "registers"]
    loops = [h for h in short["hottest"] if h["by"] == "loop"]
    for peak in peaks:
        most = max(
            sum(n for name, n in (line["live"] or {}).items() if name != "pred")
            if short["stage"] == "ptx"
            else (line["live"] or {}).get("gpr", 0)
            for line in lines.values()
        )
        assert peak["live"] == most and peak["text"] == lines[peak["first"]]["text"].strip()
    for loop in loops:  # one of its lines jumps back to where it begins, or before its label
        inside = [lines[n] for n in range(loop["first"], loop["last"] + 1)]
        assert any(line["base"] in ("bra", "BRA") for line in inside)
    assert peaks
    if kernel in ("ff3a7da2", "square_loop_kernel"):
        assert loops


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        nightly(["show", "ff3a7da2"]),
        ["show", "0/0"],
        nightly(["diff", "matmul_kernel", "--variants"]),
        ["diff", "square_grid_kernel", "square_loop_kernel"],
    ],
    ids=" ".join,
)
def test_what_may_be_asked_next_can_be_asked(words: list[str]) -> None:
    command, *rest = words
    done = call(command, SAMPLE, *rest, "--brief", "--json")
    assert len(done.out) <= BRIEF
    assert done.json["next"]
    for one in done.json["next"]:
        program, *typed = shlex.split(one["command"])
        answered = call(*typed)
        assert program == "ptxview" and answered.status == 0, one["command"]
        assert answered.out and one["answers"]
    said = call(command, SAMPLE, *rest, "--brief").text
    assert all(one["command"] in said for one in done.json["next"])


@pytest.fixture(scope="module")
def counted() -> None:
    """All hints of the recording are counted."""
    count_hints(SAMPLE)


@pytest.mark.usefixtures("counted")
def test_a_list_in_short_has_what_the_list_has() -> None:
    short = call("list", SAMPLE, "--brief", "--json").json
    known = {v["id"]: (k, v) for k, v in variants_of(call("list", SAMPLE, "--json").json)}
    assert {row["variant"] for row in short["variants"]} == set(known)
    for row in short["variants"]:
        kernel, variant = known[row["variant"]]
        assert row["kernel"] == kernel["name"]
        assert row["registers"] == variant["resources"]["registers"]
        assert row["hints"] == variant["hints"]
    hints = [row["hints"] for row in short["variants"]]
    assert hints == sorted(hints, reverse=True), "none of them spills"
    assert short["recording"]["variants"] == len(known)


@pytest.mark.parametrize(
    ("asked", "first", "last"), [("40:80", 40, 80), ("7", 7, 7), ("110:", 110, None)]
)
def test_lines_are_those_of_the_text(asked: str, first: int, last: int | None) -> None:
    text = call("show", SAMPLE, "softmax_kernel").text.split("\n")
    assert call("show", SAMPLE, "softmax_kernel", "--lines", asked).text == "".join(
        f"{line}\n" for line in text[first - 1 : last]
    )
    shown = whole("softmax_kernel", "--lines", asked)
    long = whole("softmax_kernel")
    assert shown["lines"] == long["lines"][first - 1 : last]
    assert shown["functions"] == long["functions"]


def test_every_answer_fits_with_any_content() -> None:
    """The bound holds by construction: of a value that has far too much of everything."""
    text = "\x1b[31m‮" + "ü" * 5000
    value = {
        "schema": 1,
        "path": text,
        "kernel": text,
        "figures": {f"f{n}": text for n in range(16)},
        "hints": [
            {"rule": text, "severity": text, "text": text, "lines": {"ptx": list(range(99))}}
            for _ in range(300)
        ],
        "hottest": [{"text": text, "source": {"file": text, "line": 1}} for _ in range(300)],
        "next": [{"command": "ptxview show " + "x" * 230, "answers": text} for _ in range(9)],
    }
    answer = brief.bounded_summary(value)
    written = json.dumps(answer)
    assert len(written) <= BRIEF
    assert answer["left_out"] == {
        name: len(value[name]) - len(answer[name])  # type: ignore[arg-type]
        for name in ("hints", "hottest", "next")
    }
