"""``check``: figures beside ptxas's, what is not known, a baseline, every form of the answer."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.execute.judged import FOLDER
from tests.helpers.ptxview import SAMPLE, call, finished, saved, tool


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a pyproject.toml of somebody's."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def of_ptxas(cache: Path) -> dict[str, int]:
    """Registers, spills and stack as ``ptxas -v`` says them."""
    (path,) = cache.rglob("*.ptx")
    made = finished([tool("ptxas"), "-v", "-arch=sm_80", "-o", "/dev/null", path])
    assert made.status == 0, made.said
    registers = re.search(r"Used (\d+) registers", made.said)
    spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", made.said)
    assert registers and spills
    return {
        "registers": int(registers[1]),
        "stack": int(spills[1]),
        "spills": int(spills[2]) + int(spills[3]),
    }


def cache_of(folder: Path, text: str) -> Path:
    """A cache of Triton's that holds this PTX, with the machine code that ptxas makes of it."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    entry = folder / digest[:52].upper()
    ptx = saved(entry / "matmul_kernel.ptx", text)
    words = ("-lineinfo", "-arch=sm_80", "-o", ptx.with_suffix(".cubin"))
    subprocess.run([tool("ptxas"), *words, ptx], check=True, timeout=300)
    told = {
        "hash": digest,
        "target": {"backend": "cuda", "arch": 80, "warp_size": 32},
        "num_warps": 4,
        "num_stages": 3,
        "shared": 16384,
        "name": "matmul_kernel",
    }
    ptx.with_suffix(".json").write_text(json.dumps(told), "utf-8")
    return folder


PTX = (FOLDER / "matmul_sm80.ptx").read_text("utf-8")
TIGHT = PTX.replace(".reqntid 128", ".reqntid 128\n.maxnreg 40", 1)
"""The matmul with so few registers that it spills."""


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    return cache_of(tmp_path / "tight", TIGHT)


@pytest.fixture
def free(tmp_path: Path) -> Path:
    return cache_of(tmp_path / "free", PTX)


def checks(*words: str | Path, status: int) -> dict[str, dict[str, object]]:
    done = call("check", *words, "--json")
    assert done.status == status, done.said
    told = json.loads(done.out)
    assert told["passed"] is (status == 0)
    return {one["what"]: one for one in told["checks"]}


def test_figures_are_the_assemblers(free: Path, tight: Path) -> None:
    for path in (free, tight):
        true = of_ptxas(path)
        words = [w for name in true for w in (f"--max-{name}", str(true[name]))]
        kept = checks(path, *words, status=0)
        assert {name: kept[name]["value"] for name in true} == true
        broken = checks(path, "--max-registers", str(true["registers"] - 3), status=1)
        assert broken["registers"]["by"] == 3 and broken["registers"]["outcome"] == "broken"
    assert of_ptxas(tight)["spills"] > 0
    spilled = checks(tight, "--no-spills", status=1)["spills"]
    assert spilled["stage"] == "sass" and isinstance(spilled["line"], int)
    shown = call("show", tight, "matmul_kernel", "--stage", "sass", "--json").json["lines"]
    assert shown[spilled["line"] - 1]["base"] in ("STL", "LDL")


def test_nothing_may_be_worse_than_the_baseline(free: Path, tight: Path) -> None:
    before, after = of_ptxas(free), of_ptxas(tight)
    assert not checks(free, free, status=0)["spills"]["by"]
    worse = checks(tight, free, status=1)
    assert worse["spills"]["outcome"] == "broken" and worse["registers"]["outcome"] == "kept"
    assert (worse["spills"]["value"], worse["spills"]["baseline"]) == (
        after["spills"],
        before["spills"],
    )
    checks(tight, free, "--allow", f"spills={after['spills']}", status=0)
    checks(tight, "--baseline", free, "--allow", f"spills={after['spills'] - 1}", status=1)
    grown = checks(free, tight, "--allow", "registers=10%", status=1)["registers"]
    assert grown["limit"] == pytest.approx(after["registers"] * 1.1)
    assert grown["by"] == pytest.approx(before["registers"] - after["registers"] * 1.1)


def test_what_is_not_known_does_not_pass() -> None:
    words: list[str | Path] = [SAMPLE, "--kernel", "gelu_kernel", "--min-occupancy", "1"]
    unknown = checks(*words, status=1)["occupancy"]
    assert (unknown["outcome"], unknown["value"], unknown["by"]) == ("unknown", None, None)
    assert checks(*words, "--allow-unknown", status=0)["occupancy"]["outcome"] == "unknown"
    said = call("check", *words)
    assert said.status == 1 and "could not be judged" in said.said and "?" in said.text
    timed = checks(SAMPLE, "--max-time", "1000", "--kernel", "square_kernel", status=1)["time"]
    assert timed["outcome"] == "unknown"


def test_double_precision_is_found_at_its_line() -> None:
    found = checks(SAMPLE, "--kernel", "gelu_kernel", "--no-fp64", status=1)["fp64"]
    shown = call("show", SAMPLE, "gelu_kernel", "--json").json["lines"]
    double = [
        line
        for line in shown
        if line["kind"] == "instruction"
        and ".f64" in line["opcode"]
        and line["base"] not in ("mov", "ld", "st", "selp")
    ]
    assert found["value"] == len(double) and found["line"] == double[0]["n"]
    assert found["source"] == double[0]["source"]
    said = f"fp64 instructions: {len(double)} of PTX, at most 0 allowed"
    done = call("check", SAMPLE, "--kernel", "gelu_kernel", "--no-fp64", "--github")
    assert said in done.text
    assert checks(SAMPLE, "--kernel", "gelu_float_kernel", "--no-fp64", status=0)
    hint = checks(SAMPLE, "--kernel", "gelu_*", "--forbid", "fp64-promotion", status=1)
    assert hint["fp64-promotion"]


def test_a_file_says_it_too(tmp_path: Path) -> None:
    config = saved(
        tmp_path / "pyproject.toml",
        """
[tool.ptxview.check]
max-registers = 30
[[tool.ptxview.check.kernels]]
select = "matmul_kernel"
max-registers = 64
""",
    )
    told = json.loads(call("check", SAMPLE, "--json").out)
    broken = {c["kernel"] for c in told["checks"] if c["outcome"] == "broken"}
    assert len(broken) == 1 and "matmul_kernel" not in broken
    config.write_text("[tool.ptxview.check]\nmax-register = 30\n")
    done = call("check", SAMPLE)
    assert done.status == 2 and "max-registers" in done.said
    config.write_text("[tool.ptxview.check\n")
    done = call("check", SAMPLE)
    assert done.status == 4 and "not TOML" in done.said and "Traceback" not in done.said
    config.unlink()
    done = call("check", SAMPLE)
    assert done.status == 2 and "nothing to check" in done.said


def test_annotations_are_workflow_commands(tmp_path: Path, free: Path) -> None:
    """GitHub's ``::error file=…,line=…::text``; a file outside of the repository has no line."""
    done = call("check", SAMPLE, "--max-registers", "40", "--github")
    lines = done.text.splitlines()
    assert done.status == 1 and len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"::error title=[^:,]+::[^\n]+", line), line
    from inspector.base.model import Location
    from inspector.diff.check import Outcome, Place, Subject, Verdict
    from inspector.render.check import CheckResult, workflow_commands

    place = Place(source=Location(str(tmp_path / "a, b.py"), 7))
    verdict = Verdict(Subject(graph="0/0"), "kernels", Outcome.BROKEN, 3, 2, place=place)
    (said,) = workflow_commands(CheckResult("x", None, (verdict,), 1, 1), str(tmp_path))
    assert said.startswith("::error file=a%2C b.py,line=7,title=ptxview check%3A graph 0/0::")
    assert said.endswith("kernels: 3 of a graph, at most 2 allowed [a, b.py:7]")


def test_junit_and_markdown_hold_each_check(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    words = ("check", SAMPLE, "--max-registers", "40", "--min-occupancy", "10")
    done = call(*words, "--junit", path, "--markdown")
    told = json.loads(call(*words, "--json").out)
    root = ET.parse(path).getroot()
    cases = list(root.iter("testcase"))
    assert len(cases) == len(told["checks"])
    assert len(list(root.iter("failure"))) == told["counts"]["broken"]
    assert len(list(root.iter("error"))) == told["counts"]["unknown"]
    assert sum(int(suite.get("tests", "0")) for suite in root) == len(cases)
    rows = [line for line in done.text.splitlines() if line.startswith("| `")]
    assert len(rows) == told["counts"]["broken"] + told["counts"]["unknown"]
    assert done.text.startswith("### ptxview check: failed")
    passed = call("check", SAMPLE, "--max-registers", "255", "--markdown")
    assert passed.status == 0 and passed.text.startswith("### ptxview check: passed")
