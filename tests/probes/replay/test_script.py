"""Variants of a script in the child process, on the CPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from inspector.probes.replay.script import Comparison, Refused, declared, load
from inspector.sources.compilers import by_probes
from inspector.system.process import run_tool

PLAIN = """
import torch
import beside
def inputs(N=4, M=3, gain=2.0, device="cuda"):
    return torch.arange(M * N, dtype=torch.float32, device=device).reshape(M, N)
def reference(x): return x.double() * 2
def unwritten(x):
    y = x * 2
    y[1:] = float("nan")
    return y
VARIANTS = {
    "sum": lambda x: x + x,
    "half": lambda x: (x * 2).half(),
    "last": lambda x: beside.two() * x,
    "wrong": lambda x: x * 3,
    "unwritten": unwritten,
    "changes": lambda x: x.mul_(2),
    "short": lambda x: x[1:],
    "none": lambda x: None,
    "raises": lambda x: x.nothing_of_that_name,
    "leaves": lambda x: (_ for _ in ()).throw(SystemExit(3)),
}
def bytes_of(x): return 2 * x.nbytes
if __name__ == "__main__":
    raise RuntimeError("this part does not run")
"""


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    path, argv, modules = list(sys.path), list(sys.argv), dict(sys.modules)
    yield
    sys.path[:], sys.argv[:] = path, argv
    for name in set(sys.modules) - set(modules):
        if name.split(".")[0] in ("plain", "beside", "mine"):
            del sys.modules[name]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("def two(): return 2\n")
    (tmp_path / "plain.py").write_text(PLAIN)
    return tmp_path / "plain.py"


def checked(comparison: Comparison, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is written about a variant's input, and the verdict on its results."""
    said: dict[str, Any] = {}
    variant = {"n": 0, "variant": name}
    comparison.call(variant, lambda **fields: said.update(fields), lambda: None)
    return said["about"], said["checked"]


def test_scripts_import_their_neighbours_and_their_main_part_does_not_run(plain: Path) -> None:
    said = declared(load(str(plain)))
    assert said["variants"][:2] == ["sum", "half"]
    assert said["sizes"] == {"N": 4, "M": 3}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "it has no VARIANTS; ptxview time compares what the file declares"),
        ("VARIANTS = {'a': abs}\n", r"it has no inputs\(\)"),
        ("VARIANTS = {'a': 3}\ndef inputs(): pass\n", r"VARIANTS\['a'\] is not a function"),
        ("\n\nimport no_module_of_this_name\n", r"ModuleNotFoundError: No module .* \(line 3\)"),
        ("def f(:\n", r"SyntaxError: .*\(line 1\)"),
        ("raise SystemExit('enough')\n", r"SystemExit: enough \(line 1\)"),
    ],
)
def test_invalid_scripts_are_refused_in_one_line(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "plain.py").write_text(text)
    with pytest.raises(Refused, match=why) as raised:
        load(str(tmp_path / "plain.py"))
    assert "\n" not in str(raised.value)


def test_results_are_compared_with_the_reference(plain: Path) -> None:
    comparison = Comparison(torch, str(plain), {}, "cpu")
    about, verdict = checked(comparison, "sum")
    assert about == {"inputs": [("float32", [3, 4])], "bytes": 96, "flops": None}
    assert verdict == {"agrees": True, "difference": 0.0, "why": None}
    whys = {
        "wrong": "Mismatched elements: 11 / 12",
        "unwritten": "8 NaN: were they written?",
        "changes": "it changes its input",
        "short": "cpu (2, 4), the reference cpu (3, 4)",
        "none": "it gives 0 tensors, the reference 1",
    }
    for name, why in whys.items():
        verdict = checked(comparison, name)[1]
        assert not verdict["agrees"] and why in verdict["why"], (name, verdict)
    assert checked(comparison, "wrong")[1]["difference"] == pytest.approx(11)
    for name in ("half", "last", "sum"):  # the input is as it was before it was changed
        assert checked(comparison, name)[1]["agrees"]
    other = Comparison(torch, str(plain), {"N": 5, "M": 2}, "cpu")
    assert checked(other, "sum")[0]["inputs"] == [("float32", [2, 5])]


def test_errors_of_variants_and_inputs_name_the_line(plain: Path) -> None:
    comparison = Comparison(torch, str(plain), {}, "cpu")
    line = PLAIN.splitlines().index('    "raises": lambda x: x.nothing_of_that_name,') + 1
    with pytest.raises(Refused, match=rf"nothing_of_that_name' \(line {line}\)"):
        checked(comparison, "raises")
    with pytest.raises(Refused, match="SystemExit: 3"):
        checked(comparison, "leaves")
    with pytest.raises(Refused, match=r"step sign \(line 5\)"):
        Comparison(torch, str(plain), {"N": -5}, "cpu")


def test_the_child_writes_what_a_script_declares(
    plain: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    job, results = tmp_path / "job.json", tmp_path / "results.jsonl"
    for text, expected in ((PLAIN, {"N": 4, "M": 3}), ("VARIANTS = 1", None)):
        plain.write_text(text)
        job.write_text(json.dumps({"script": str(plain)}))
        python = plain_python("torch")
        done = run_tool(by_probes(python, "replay.script", job, results))
        assert done.status == 0, done.complaint
        said = json.loads(results.read_text())
        assert said.get("sizes") == expected and ("refused" in said) == (expected is None)
