"""``step``: values, places and output, checked by what the kernel must compute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.execute.calls.programs import kernel, written
from tests.helpers.ptxview import REPOSITORY, SAMPLE, call, environment

RECORDING = str(SAMPLE)
SOFTMAX = ("step", RECORDING, "softmax_kernel", "--block", "7")


def answers(*words: str | Path, status: int = 0) -> list[dict[str, Any]]:
    """The answer to each command, the beginning first."""
    done = call(*words, "--json")
    assert done.status == status, done.said
    return [json.loads(line) for line in done.text.splitlines()]


def values(answer: dict[str, Any]) -> dict[str, Any]:
    return {one["register"]: one["value"] for one in answer["values"]}


def test_a_block_computes_what_numpy_does_and_can_be_gone_back_through(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, 1823 * 781, dtype=np.float32).reshape(1823, 781)
    np.savez(tmp_path / "x.npz", input_ptr=x, output_ptr=np.zeros_like(x))
    given = (*SOFTMAX, "--inputs", tmp_path / "x.npz", "--lane", "3")
    first, there, printed, before, again = answers(
        *given, "--commands", "store output_ptr+21880; print x y row; back; print y"
    )
    assert first["step"] == 0 and first["steps"] > 100 and first["source"]["line"] == 30
    assert there["statement"].startswith("@%p1 st.global") and there["source"]["line"] == 45
    row = x[7].astype(np.float64)
    soft = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    named: dict[str, list[Any]] = {}
    for one in printed["values"]:
        named.setdefault(one["name"], []).append(one["value"])
    # A thread of 128 has every 128th column; those past the last hold minus infinity.
    assert [v for v in named["x"] if v != "-inf"] == row[3::128].tolist()
    assert named["row"] == [7]
    computed = [v for v in named["y"] if v != 0]
    assert computed == pytest.approx(soft[3::128].tolist(), rel=1e-5)
    assert before["step"] == there["step"] - 1
    assert values(again).items() <= values(printed).items()


def test_a_register_before_it_is_written_is_not_known() -> None:
    *_, printed = answers(*SOFTMAX, "--commands", "start; print %r86 %rd17")
    assert values(printed)["%r86"] is None and values(printed)["%rd17"] is not None
    text = call(*SOFTMAX, "--commands", "print %r86").text
    assert "%r86 (numerator) f32 = not written yet" in text


def test_names_are_the_sources() -> None:
    *_, printed = answers(*SOFTMAX, "--commands", "end; registers")
    names = {one["register"]: one["name"] for one in printed["values"]}
    source = call("show", RECORDING, "softmax_kernel", "--stage", "source").text
    assert {"x", "y", "row", "cols", "mask", "numerator", "n_cols"} <= set(names.values())
    assert all(name is None or name in source for name in names.values())
    tensor = next(one for one in printed["values"] if one["name"] == "input_ptr")
    assert tensor["address_in"] == {"name": "input_ptr", "offset": 0}


DIVERGENT = kernel(
    "    ld.global.f32 %f1, [%rd1];\n    setp.lt.s32 %p1, %r1, 8;\n    @%p1 bra $SMALL;\n"
    "    sqrt.approx.f32 %f2, %f1;\n$SMALL:\n    st.global.f32 [%rd1], %f2;"
)


def lines_with(text: str, word: str) -> int:
    return next(n for n, said in enumerate(text.splitlines(), 1) if word in said)


def test_it_goes_to_lines_partings_stores_and_the_first_nan(tmp_path: Path) -> None:
    x = np.array([-1.0 if n == 20 else n for n in range(64)], np.float32)
    ptx, inputs = written(tmp_path, DIVERGENT, x=x)
    given = ("step", ptx, "--grid", "1", "--threads", "64", "--inputs", inputs)
    commands = f"until {lines_with(DIVERGENT, 'setp')}; nan"
    _, nan, back, parts, lanes, store, nothing, none = answers(
        *given, "--commands", f"nan; start; parts 3 30; lanes %f1; store x+44; {commands}"
    )
    root = lines_with(DIVERGENT, "sqrt")
    assert (nan["line"], nan["active"]) == (root, {"warp": 24, "block": 56})
    assert nan["runs"] is False and nan["lane"] == 0
    assert back["step"] == 0
    # Where the ways part: of the branch, those below 8 go it.
    assert parts["line"] == lines_with(DIVERGENT, "bra") and parts["active"]["block"] == 8
    (strip,) = lanes["lanes"]
    assert strip["values"] == x[:32].tolist()
    assert strip["active"] == [n < 8 for n in range(32)]
    assert store["line"] == lines_with(DIVERGENT, "st.global")
    assert nothing["step"] == none["step"] == store["step"]
    assert "no further step" in nothing["note"] and "no further step" in none["note"]


def test_lanes_that_did_not_run_a_step_are_marked(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, DIVERGENT, x=np.arange(64, dtype=np.float32))
    given = ("step", ptx, "--grid", "1", "--threads", "64", "--inputs", inputs)
    text = call(*given, "--commands", "parts 3 30; lanes %f1; lanes; lanes %r1 block").text
    assert "████████························" in text
    assert "[8]" in text and "[7]" not in text and "[63]" in text
    assert text.count("lanes ran this step") == 3 and "8 of 64 lanes" in text
    text = call(*given, "--commands", "parts 3 30; next").text
    assert "lane 0 (warp 0, lane 0) does not run it" in text
    assert "········████████████████████████" in text


def test_its_last_step_is_the_one_that_faults(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, DIVERGENT, x=np.zeros(60, np.float32))
    given = ("step", ptx, "--grid", "1", "--threads", "64", "--inputs", inputs)
    first, last = answers(*given, "--commands", "end", status=1)
    assert last["line"] == lines_with(DIVERGENT, "ld.global")
    assert "out of bounds" in last["note"] or "past the end of x" in last["note"]
    assert last["step"] == first["steps"] - 1


def test_a_mine_step_is_the_lanes_own(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, DIVERGENT, x=np.zeros(64, np.float32))
    given = ("step", ptx, "--grid", "1", "--threads", "64", "--inputs", inputs)
    branch, store = lines_with(DIVERGENT, "bra"), lines_with(DIVERGENT, "st.global")
    _, here, mine = answers(*given, "--commands", f"until {branch}; mine")
    assert (here["line"], mine["line"]) == (branch, store)
    _, here, theirs = answers(*given, "--lane", "9", "--commands", f"until {branch}; mine")
    assert theirs["line"] == lines_with(DIVERGENT, "sqrt")


def test_halves_of_a_packed_register_are_distinguished(tmp_path: Path) -> None:
    text = kernel("    ld.global.u32 %r4, [%rd1];\n    add.rn.f16x2 %r5, %r4, %r4;")
    x = np.arange(64, dtype=np.float16).reshape(32, 2)
    ptx, inputs = written(tmp_path, text, x=x)
    given = ("step", ptx, "--grid", "1", "--threads", "32", "--inputs", inputs)
    *_, printed = answers(*given, "--lane", "5", "--commands", "end; print %r5")
    assert values(printed) == {"%r5": [20.0, 22.0]}


@pytest.mark.parametrize(
    "command, said",
    [
        ("nxt", "did you mean next"),
        ("until", "say until LINE"),
        ("until 99999", "no further step is on line 99999"),
        ("lane 128", "they are 0 to 127"),
        ("print", "say which register"),
        ("print rows", "did you mean row"),
        ("parts 1", "parts 0 1"),
        ("store y", "say where to"),
        ("next 9999999", "last step"),
        ("go -1", "not a whole number"),
        ("help", "a register's values in the lanes"),
    ],
)
def test_every_command_is_answered_by_a_sentence(command: str, said: str) -> None:
    done = call(*SOFTMAX, "--commands", command)
    assert said in done.text, done.text
    assert done.status in (0, 2) and "Traceback" not in done.said + done.text
    assert done.status == (2 if answers_badly(command) else 0)


def answers_badly(command: str) -> bool:
    _, answer = (
        json.loads(one) for one in call(*SOFTMAX, "--json", "--commands", command).text.splitlines()
    )
    return not answer["understood"]


def test_commands_come_through_a_pipe() -> None:
    words = [sys.executable, "-m", "inspector", *SOFTMAX, "--lane", "3"]
    given: dict[str, Any] = {"env": environment(), "cwd": REPOSITORY, "timeout": 120}
    said = "next 5\n\nprint row; back\nquit\nnever\n"
    done = subprocess.run(words, input=said, capture_output=True, text=True, **given)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("(step)")] == [
        "(step) next 5",
        "(step) print row",
        "(step) back",
        "(step) quit",
    ]
    assert "%r26 (row) s32 = 7" in done.stdout and "step 4 of" in done.stdout
