"""What the child process of a comparison does, as far as it needs no device."""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inspector.errors import Unreadable, UsageError
from inspector.measure.time.child import BOOT, NO_DEVICE, NO_TORCH, PROBES, TimeWish
from inspector.measure.time.racing import BUILDING, REFUSED, WRONG_SIZE, Task, measure
from inspector.measure.time.ranking import rows_of
from inspector.probes.replay import script
from inspector.probes.replay import session as replay
from inspector.probes.replay.cupti import Event
from inspector.probes.replay.script import (
    Broken,
    Declared,
    Kept,
    NotDeclared,
    compared,
    described,
    load,
    tensors,
)
from inspector.probes.replay.stopwatches import FEWEST, calls, learn, period
from inspector.probes.replay.trace import Unavailable, device_events
from inspector.system.process import Finished, run_tool

KERNELS = Path(__file__).parents[3] / "kernels"
PLAIN = """
import torch
import beside
def inputs(N=4, M=3, gain=2.0, device="cuda"):
    return torch.arange(M * N, dtype=torch.float32, device=device).reshape(M, N)
def reference(x): return x.double() * 2
def doubled(x): return beside.two() * x
VARIANTS = {
    "sum": lambda x: x + x,
    "wrong": lambda x: x * 3,
    "raises": lambda x: x.nothing_of_that_name,
    "changes": lambda x: x.mul_(2),
    "last": doubled,
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
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("def two(): return 2\n")
    (tmp_path / "plain.py").write_text(PLAIN)
    return tmp_path / "plain.py"


class Session:
    """A child's session on the CPU, whose stopwatch says how often a variant was called."""

    def __init__(self, sizes: list[dict[str, int]], done: tuple[int, ...] = ()) -> None:
        self.torch = torch
        self.job = {"sizes": sizes, "done": list(done), "stopwatches": ["cupti"], "cache": "hot",
                    "seconds": 0.1, "limit": 600, "device": "cpu"}  # fmt: skip
        self.said: list[dict[str, Any]] = []

    def say(self, **fields: Any) -> None:
        json.dumps(fields)
        self.said.append(fields)

    def warm(self) -> None:
        pass

    def watched(self, stopwatch: str, state: str, launch: Callable[[], None], *_: Any
                ) -> dict[str, Any]:  # fmt: skip
        launch()
        return {"stopwatch": stopwatch, "cache": state, "samples": [1.0]}

    def of(self, n: int, key: str) -> Any:
        return next((s[key] for s in self.said if s.get("n") == n and key in s), None)


# -- the script -----------------------------------------------------------------------------------


def test_a_script_is_read_with_what_stands_beside_it_and_its_main_part_does_not_run(
    plain: Path,
) -> None:
    declared = load(str(plain))
    assert list(declared.variants)[:2] == ["sum", "wrong"]
    assert declared.sizes == {"N": 4, "M": 3}
    (x,) = declared.inputs({"N": 5}, "cpu")
    assert x.shape == (3, 5)
    assert declared.amount("bytes_of", (x,)) == 2 * 4 * 15
    assert declared.amount("flops_of", (x,)) is None
    assert declared.lacks({"N": 5}) is None
    assert declared.lacks({"K": 1}) == "inputs() has no parameter K (its sizes: N, M)"


def test_a_file_of_a_package_is_imported_as_that(tmp_path: Path) -> None:
    package = tmp_path / "mine" / "deep"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "a.py").write_text("from mine.deep.b import f\nVARIANTS = {'f': f}\n"
                                  "def inputs(): return (1, 2)\n")  # fmt: skip
    (package / "b.py").write_text("def f(x, y): return x + y\n")
    declared = load(str(package / "a.py"))
    assert declared.inputs({}, "cpu") == (1, 2) and declared.variants["f"](1, 2) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "it has no VARIANTS; ptxview time compares what the file declares"),
        ("VARIANTS = {}\ndef inputs(): pass\n", "it has no VARIANTS"),
        ("VARIANTS = {'a': abs}\n", r"it has no inputs\(\)"),
        ("VARIANTS = {'a': 3}\ndef inputs(): pass\n", r"VARIANTS\['a'\] is no function"),
        ("\n\nimport no_module_of_this_name\n", r"ModuleNotFoundError: No module .* \(line 3\)"),
        ("def f(:\n", r"SyntaxError: .*\(line 1\)"),
        ("raise SystemExit('enough')\n", r"SystemExit: enough \(line 1\)"),
    ],
)
def test_a_script_that_declares_nothing_or_breaks_is_told_in_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "plain.py").write_text(text)
    with pytest.raises((NotDeclared, Broken), match=why) as raised:
        load(str(tmp_path / "plain.py"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["square", "gelu_cuda", "softmax", "matmul", "fused"])
def test_the_specimens_declare_variants_that_a_size_can_be_given_to(name: str) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    declared = load(str(KERNELS / f"{name}.py"))
    assert "N" in declared.sizes and declared.reference is not None
    given = declared.inputs({"N": 8, "M": 4}, "cpu")
    assert declared.amount("bytes_of", given) == sum(
        t.nbytes for t in (*tensors(given), *tensors(next(
            f for n, f in declared.variants.items() if n in ("torch.square", "torch gelu",
            "torch.softmax", "torch.matmul", "eager"))(*given)))
    )  # fmt: skip


# -- whether results agree ------------------------------------------------------------------------


def test_what_was_not_written_and_what_is_wrong_disagree() -> None:
    wanted = torch.linspace(1, 2, 1000, dtype=torch.float64)
    right = wanted.float()
    assert compared(torch, right, wanted, {})[0]
    assert compared(torch, right.half(), wanted, {})[0]  # by the tolerance of its own dtype
    assert not compared(torch, right.half().float(), wanted, {})[0]
    assert compared(torch, right.half().float(), wanted, {"rtol": 1e-3})[0]
    half = right.clone()
    half[500:] = float("nan")
    agrees, far, why = compared(torch, half, wanted, {})
    assert (agrees, why) == (
        False,
        "500 of 1,000 values differ, 500 of them NaN: were they written?",
    )
    assert far is not None and far < 1e-6
    off = right.clone()
    off[3] += 0.5
    agrees, far, why = compared(torch, off, wanted, {})
    assert (agrees, why) == (False, "1 of 1,000 values differ") and far == pytest.approx(0.5)
    assert compared(torch, right[:9], wanted, {})[2] == "its shape is 9, the reference's 1000"
    assert compared(torch, None, wanted, {})[2] == "it gives 0 tensors, the reference 1"
    gone = torch.tensor([float("nan"), float("inf"), 1.0])
    assert compared(torch, gone, gone.clone(), {}) == (True, 0.0, None)
    assert not compared(torch, torch.tensor([1, 2]), torch.tensor([1, 3]), {})[0]
    assert compared(torch, {"a": [right], "b": (right,)}, [wanted, wanted], {})[0]
    # A reference of lower precision takes nothing away from a result.
    assert compared(torch, torch.tensor([1e5]), torch.tensor([65504.0]).half(), {})[1] == 34496
    turned = torch.tensor([1 + 2j])
    assert compared(torch, turned, turned.clone(), {})[0]
    assert not compared(torch, turned, turned.conj(), {})[0]


def test_inputs_that_were_changed_are_given_back() -> None:
    x, y = torch.arange(6.0).reshape(2, 3).t(), torch.tensor([float("nan")])
    kept = Kept(torch, (x, [y], 3))
    assert not kept.changed()
    x.mul_(2)
    assert kept.changed()
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3).t()) and not kept.changed()


def test_inputs_are_told_in_words() -> None:
    x, n = torch.zeros(3, 4), torch.zeros(2, dtype=torch.int64)
    assert described((x, x, n, 5)) == ("float32 3×4, 3×4, int64 2", ["float32", "int64"])


# -- rows -----------------------------------------------------------------------------------------


def test_each_variant_is_checked_and_costs_its_own_row(plain: Path) -> None:
    session = Session([{"N": 4}, {"N": 5, "M": 2}])
    assert script.rows(session, load(str(plain)), str(plain)) == 0  # type: ignore[arg-type]
    ended = [s["end"] for s in session.said if "end" in s]
    assert ended == list(range(12))
    assert session.of(0, "about") == {"inputs": "float32 3×4", "dtypes": ["float32"], "bytes": 96,
                                      "flops": None}  # fmt: skip
    assert session.of(6, "about")["inputs"] == "float32 2×5"
    agree = [(session.of(n, "checked") or {}).get("agrees") for n in range(6)]
    assert agree == [True, False, None, False, True, None]
    assert session.of(3, "checked")["why"].startswith("it changes its input")
    line = PLAIN.splitlines().index('    "raises": lambda x: x.nothing_of_that_name,') + 1
    assert session.of(2, "error").endswith(f"nothing_of_that_name' (line {line})")
    assert session.of(5, "error").startswith("SystemExit: 3")
    assert session.of(0, "samples") == [1.0] and session.of(1, "samples") == [1.0]


def test_rows_that_are_done_are_not_run_again_and_an_input_that_fails_costs_its_size(
    plain: Path,
) -> None:
    session = Session([{"N": 4}, {"N": -5}, {"N": 6}], done=(*range(6), 12, 13, 14, 15, 16))
    assert script.rows(session, load(str(plain)), str(plain)) == 0  # type: ignore[arg-type]
    assert [s["end"] for s in session.said if "end" in s] == [*range(6, 12), 17]
    (why,) = {session.of(n, "error") for n in range(6, 12)}
    assert why.startswith("its input: ") and "(line 5)" in why


def test_without_a_reference_the_first_variant_is(tmp_path: Path) -> None:
    made = SimpleNamespace(
        VARIANTS={"a": lambda x: x + 1, "b": lambda x: x + 1, "c": lambda x: x},
        inputs=lambda: torch.zeros(3),
    )
    session = Session([{}])
    assert script.rows(session, Declared(made), "x.py") == 0  # type: ignore[arg-type]
    assert [session.of(n, "checked")["agrees"] for n in range(3)] == [True, True, False]


def test_the_real_child_says_that_there_is_no_device(
    plain: Path, tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    python = plain_python("torch")
    job, results = tmp_path / "job.json", tmp_path / "results.jsonl"
    job.write_text(json.dumps({"script": str(plain), "limit": 60}))
    done = run_tool([python, "-c", BOOT, str(PROBES), "script", str(job), str(results)])
    assert done.status == NO_DEVICE, done.complaint
    assert "no_device" in json.loads(results.read_text())


def test_what_the_child_says_is_what_the_other_side_hears(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnCpu(Session):
        def __init__(self, torch: Any, job: dict[str, Any], out: Any) -> None:
            self.torch, self.job, self.out = torch, job, out

        def say(self, **fields: Any) -> None:
            self.out.write(json.dumps(fields) + "\n")

        def about(self) -> dict[str, Any]:
            return {"name": "a CPU"}

    monkeypatch.delenv("PTXVIEW_TARGET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(script, "Session", OnCpu)
    copied = {"stopwatch": "cupti", "cache": "hot", "samples": [1.0], "bytes": 1}
    monkeypatch.setattr(script, "copy", lambda session: session.say(copy=copied))

    def child(argv: Sequence[str], *_: Any) -> Finished:
        job = Path(argv[-2])
        job.write_text(json.dumps({**json.loads(job.read_text()), "device": "cpu"}))
        return Finished(script.main(argv[-2], argv[-1]), b"", b"")

    task = Task(plain, [{"N": 4}, {"N": 6}], TimeWish("cupti", "hot", 0.1, 600.0))
    found = measure("python", task, child=child)
    assert found.device == {"name": "a CPU"} and len(found.copies) == 1
    assert found.sizes == {"N": 4, "M": 3} and found.ended == set(range(12))
    rows = rows_of(found, "plain", task.sizes, ())
    assert [(r.timing.variant, r.agrees, r.timing.inputs) for r in rows[:2]] == [
        ("sum", True, "float32 3×4"), ("wrong", False, "float32 3×4")
    ]  # fmt: skip
    assert [r.timing.median_us for r in rows[6:9]] == [1.0, 1.0, None]
    with pytest.raises(UsageError, match=r"plain.py: inputs\(\) has no parameter K"):
        measure("python", replace(task, sizes=[{"K": 4}]), child=child)
    plain.write_text("VARIANTS = 1")
    sys.modules.pop("plain")
    with pytest.raises(Unreadable, match=r"plain.py: it has no VARIANTS"):
        measure("python", task, child=child)


def test_both_sides_mean_the_same_by_an_exit_status() -> None:
    ours = (script.REFUSED, script.WRONG_SIZE, script.BUILDING)
    assert ours == (REFUSED, WRONG_SIZE, BUILDING)
    assert (replay.NO_TORCH, replay.NO_DEVICE) == (NO_TORCH, NO_DEVICE)


# -- the stopwatch --------------------------------------------------------------------------------


def event(name: str, start: int, took: int, device: str = "CUDA", kind: str = "kernel") -> Any:
    return SimpleNamespace(
        name=lambda: name, start_ns=lambda: start, duration_ns=lambda: took,
        device_type=lambda: device, activity_type=lambda: kind,
    )  # fmt: skip


def test_kernels_copies_and_fills_count_and_annotations_do_not() -> None:
    held = [
        event("b", 30, 5), event("a", 10, 5), event("cudaLaunchKernel", 1, 9, "CPU"),
        event("Memset (Device)", 20, 2, kind="gpu_memset"),
        event("## graph", 5, 99, kind="gpu_user_annotation"),
    ]  # fmt: skip
    results = SimpleNamespace(events=lambda: held)
    profiler = SimpleNamespace(profiler=SimpleNamespace(kineto_results=results))
    assert device_events(profiler) == [("a", 10, 5), ("Memset (Device)", 20, 2), ("b", 30, 5)]


@pytest.mark.parametrize(
    ("names", "times", "found"),
    [("abab", 2, "ab"), ("aaaa", 2, "aa"), ("aaaa", 4, "a"), ("abba", 2, None), ("aba", 2, None)],
)
def test_what_repeats_is_found(names: str, times: int, found: str | None) -> None:
    assert period(list(names), times) == (list(found) if found else None)


class Device:
    """A device that runs what is launched on end, 100 ns apart, and a profiler that sees it."""

    def __init__(self, losing: int = 0) -> None:
        self.now, self.losing = 0, losing
        self.seen: list[Event] = []

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def saw(self, work: Callable[[], object], enough: object) -> list[Event]:
        self.seen = []
        work()
        self.losing -= 1
        return [] if self.losing >= 0 else list(self.seen)

    def run(self, name: str, took: int) -> None:
        self.seen.append(Event(name, self.now, took))
        self.now += took + 100


def test_a_calls_kernels_are_told_from_the_flush_even_where_they_are_the_same() -> None:
    device: Any = Device(losing=2)

    def flush() -> None:
        device.run("reduce", 70_000)

    def launch() -> None:
        device.run("reduce", 2000)
        device.run("divide", 3000)

    found = calls(device, launch, flush, 5.0, lambda: None, True)
    assert found.kernels == ["reduce", "divide"] and len(found.total) >= FEWEST
    assert set(found.total) == {5.0} and set(found.span) == {5.1}
    assert [set(each) for each in found.each] == [{2.0}, {3.0}]
    hot = calls(device, launch, lambda: None, 5.0, lambda: None, False)
    assert set(hot.total) == {5.0}


def test_a_call_that_launches_nothing_or_something_else_each_time_has_no_time() -> None:
    device: Any = Device()
    with pytest.raises(Unavailable, match="saw nothing on the device"):
        calls(device, lambda: None, lambda: None, 1.0, lambda: None, False)
    turns = iter(range(10_000))
    with pytest.raises(Unavailable, match="do not launch the same kernels each time"):
        learn(device, lambda: device.run(f"kernel_{next(turns)}", 10))
