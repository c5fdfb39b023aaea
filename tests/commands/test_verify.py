"""``run --verify``: a sentence at the end, the exit status, and what the recording holds of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.hostile import MORE
from tests.helpers.ptxview import call, environment, ptxview, write_events
from tests.probes.conftest import caches, parents, warm_python
from tests.probes.target.test_verify import ROWS, STEPS, changed

__all__ = ["caches", "parents", "warm_python"]  # fixtures

if find_spec("torch") is None or find_spec("triton") is None:
    pytest.skip("torch and triton are not installed", allow_module_level=True)


@pytest.fixture
def env(tmp_path: Path, common: Path) -> dict[str, str]:
    shim = os.environ.get("PTXVIEW_TEST_CACHE") or str(common / "target-caches")
    return environment(
        XDG_CACHE_HOME=shim, XDG_STATE_HOME=str(tmp_path / "state"), PYTHONWARNINGS="ignore",
        TRITON_CACHE_DIR=str(tmp_path / "triton"),
    )  # fmt: skip


def test_a_launch_that_differs(
    env: dict[str, str], tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    script, recording = tmp_path / "program.py", tmp_path / "wrong.ptxview"
    script.write_text(changed(r"@%p\d+ (st\.global)", r"\1", ROWS))
    done = ptxview(
        "run", "--no-tui", "--verify", "--target", "sm_90", "-o", recording,
        "--python", warm_python(), script, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert done.status == 1, done.said
    said = [line for line in done.said.splitlines() if line.startswith("ptxview:")]
    assert said[-1] == "ptxview: PTX against Python: 1 differs (rows_kernel)"
    assert "rows_kernel differs: program (36, 0, 0), thread (100, 0, 0): the PTX stores" in said[-2]
    listed = call("list", recording, "--json").json
    told = listed["verification"]
    counts = {key: told[key] for key in ("launches", "agree", "identical", "differ", "unverified")}
    assert counts == {"launches": 1, "agree": 0, "identical": 0, "differ": 1, "unverified": 0}
    (kernel,) = told["kernels"]
    (variant,) = listed["kernels"][0]["variants"]
    assert (kernel["kernel"], kernel["variant"]) == ("rows_kernel", variant["id"])
    (difference,) = kernel["differences"]
    shown = call("show", recording, "rows_kernel", "--json").json
    line = shown["lines"][difference["line"] - 1]
    assert line["text"].strip().rstrip(";").endswith(difference["statement"])
    assert line["opcode"].startswith("st.global")
    (function,) = [f for f in shown["functions"] if f["kernel"] == "rows_kernel"]
    assert function["verification"]["differences"] == [difference]
    annotated = call("show", recording, "rows_kernel", "-a").text
    assert "verified" in annotated and difference["statement"] in annotated
    assert "1 differs (rows_kernel)" in call("list", recording).text


def test_launches_that_agree_leave_the_programs_own_status(
    env: dict[str, str], tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    script, recording = tmp_path / "program.py", tmp_path / "sound.ptxview"
    head = "import torch, triton, triton.language as tl\n"
    script.write_text(head + STEPS + "raise SystemExit(3)\n")
    done = ptxview(
        "run", "--no-tui", "--verify", "--target", "sm_90", "-o", recording,
        "--python", warm_python(), script, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert done.status == 3, done.said
    last = done.said.splitlines()[-1]
    assert last == "ptxview: PTX against Python: 1 launch of 1 kernel agrees, bit for bit"
    told = call("list", recording, "--json").json["verification"]
    assert (told["agree"], told["identical"]) == (1, 1)


def test_there_must_be_something_to_compare(env: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print(1)\n")
    for values in ("none", "interpreter"):
        done = ptxview("run", "--verify", "--values", values, script, env=env)
        assert done.status == 125 and not done.out
        assert f"with --values {values} it is not run" in done.said
    done = ptxview("run", "--no-tui", "--verify", "--target", "sm_90", script, env=env)
    assert (done.status, done.out) == (0, b"1\n")
    assert "nothing was verified: the program launched no Triton kernel" in done.said


def test_counts_of_several_processes_are_one(tmp_path: Path) -> None:
    """Each process tells its own count as it grows; the last one counts, with what all say."""
    head = {"event": "recording", "schema": 1, "command": ["x"], "verify": True, "time": 1}

    def count(pid: int, agree: int, **more: object) -> dict[str, object]:
        told = {"event": "verified", "name": "k", "hash": "aa", "pid": pid, "differ": 0}
        return {**told, "launches": agree, "agree": agree, "identical": agree, **more}

    folder = write_events(
        tmp_path / "recording", head, count(1, 1), count(1, 7),
        count(2, 2, unverified={"it prints": 3}, worst={"ulps": 2.0, "bound_ulps": 4.0}),
        {"event": "verified", "name": "k", "hash": "aa", "pid": "x", "agree": "²", "differ": -4,
         "unverified": [1], "worst": {"ulps": 10**400}},
        {"event": "differs", "name": "other", "hash": "bb", "pid": 2, "text": "\x1b[31mred",
         "index": ["a"], "grid": [1], "line": "x", "ptx_value": {"a": 1}, "bound": "inf"},
    )  # fmt: skip
    told = call("list", folder, "--json").json["verification"]
    one, other = told["kernels"]
    assert (one["agree"], one["unverified"], one["ulps"]) == (9, {"it prints": 3}, 2.0)
    assert (other["differ"], other["differences"][0]["index"]) == (1, None)
    text = call("list", folder)
    assert b"\x1b[31m" not in text.out + text.err
    assert "9 launches of 1 kernel agree, bit for bit; 1 differs (other); 3 could not" in text.text


ODD: tuple[object, ...] = (
    "²",
    "9" * 5000,
    10**400,
    float("nan"),
    -1,
    None,
    [],
    {},
    [[]],
    "\x1b[2J\udc9b",
    True,
    1e308,
)


def test_nothing_in_any_field_of_it_is_obeyed_or_a_traceback(tmp_path: Path) -> None:
    head = {"event": "recording", "schema": 1, "command": ["x"], "verify": True, "time": 1}
    sound = [event for event in MORE if event["event"] in ("verified", "differs")]
    assert len(sound) == 2
    for number, odd in enumerate(ODD):
        changed = [{**one, name: odd} for one in sound for name in one if name != "event"]
        nested = [{**sound[0], "unverified": {str(odd)[:99]: odd}, "worst": {"ulps": odd}}]
        folder = write_events(tmp_path / str(number), head, *changed, *nested)
        for words in (("list", folder), ("list", folder, "--json")):
            done = call(*words)
            assert done.status == 0 and "Traceback" not in done.said, done.said
            assert b"\x1b" not in done.out + done.err
        assert done.json["verification"]["kernels"]


def test_a_recording_that_was_not_verified_says_nothing(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "recording", {"event": "recording", "schema": 1, "time": 1})
    assert call("list", folder, "--json").json["verification"] is None
    assert "PTX against Python" not in call("list", folder).text
