"""Graphs' calls whose launches are counted by those of another call: by the right number."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.probes.calls import graphs, settled
from inspector.probes.calls import launch as calls_launch
from inspector.probes.calls import subjects as calls
from tests.helpers.ptxview import REPOSITORY
from tests.helpers.standing import PARAMETERS, aligned, compiled, how, names

__all__ = ["compiled", "how"]  # fixtures
pytestmark = pytest.mark.usefixtures("how")
CODE = """
class Runner:
    def __init__(self, partitions):
        for each in partitions: pass

    def call(self, args):
        arg0_1, = args
        args.clear()
        with torch.cuda._DeviceGuard(0):
            stream0 = get_raw_stream(0)
            triton_poi_fused_0.run(arg0_1, buf0, 64, stream=stream0)
        return (buf0, )
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Events of calls that nobody else makes."""
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(calls, "emit", events.append)
    monkeypatch.setattr(calls, "_all", {})
    monkeypatch.setattr(
        settled, "problem", lambda where, text: events.append({"where": where, "text": text})
    )
    return events


class Graph:
    """A graph that launches what ``body`` launches, and kernels that count what was launched."""

    def __init__(self, folder: Path, body: Callable[[Graph], None], code: str = CODE) -> None:
        path = folder / f"graph{next(names)}.py"
        path.write_text(code)
        self.held = calls.subject("graph", "g", str(path), {})
        self.body, self.launched = body, 0
        self.kernels = [self.kernel(n) for n in range(2)]
        self.tensors = aligned(64), aligned(64), aligned(8, 8)

    def kernel(self, number: int, make: Any = calls_launch.function) -> Any:
        held = calls.subject("triton", f"k{number}", f"{self.held.facts['subject']} {number}", {})
        return make(self.inner, held, 9, PARAMETERS)

    def inner(self, *args: Any) -> None:
        self.launched += 1

    def launch(self, number: int, tensor: int = 0, n: int = 64) -> None:
        x, out = self.tensors[tensor], self.tensors[0]
        self.kernels[number](1, 1, 1, 0, 0, None, None, None, None, out, x, n, 64)

    def __call__(self, times: int = 1) -> None:
        for _ in range(times):
            graphs._with_inputs(self.held, lambda inputs: self.body(self), [self.tensors[0]])

    @property
    def counts(self) -> list[list[int]]:
        """Counts as they would be told now: of the graph, and of each kernel by its calls."""
        waiting = {id(entry): times for entry, times in calls._pending()}
        subjects = [self.held, *(calls_launch.standing(k).held for k in self.kernels)]  # type: ignore[union-attr]
        return [[e[0] + waiting.get(id(e), 0) for e in s.calls.values()] for s in subjects]


def three(graph: Graph) -> None:
    graph.launch(0)
    graph.launch(1)
    graph.launch(0, tensor=2)


def test_launches_are_counted_and_made_each_time(tmp_path: Path) -> None:
    graph = Graph(tmp_path, three)
    for n in range(1, 300):
        graph()
        assert graph.counts == [[n], [n, n], [n]]
    assert graph.launched == 3 * 299
    assert graph.held.settled is not None


def test_most_of_them_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph(tmp_path, three)
    graph(settled.SURE + 10)
    looks: list[int] = []
    looked = graphs._entry
    monkeypatch.setattr(graphs, "_entry", lambda *a: looks.append(1) or looked(*a))  # type: ignore[func-returns-value]
    graph(settled.EVERY * 4)
    assert len(looks) == 4


def test_what_is_told_holds_them(tmp_path: Path, alone: list[dict[str, Any]]) -> None:
    graph = Graph(tmp_path, three)
    graph(60)
    calls.finish()
    assert sorted(alone[-1]["counts"].values()) == [60, 60, 60, 60]
    graph(1)
    new = Graph(tmp_path, three)
    new()
    first = [e["first"] for e in alone if e.get("event") == "call"]
    assert first == [0, 0, 0, 0, 61 * 4, 61 * 4, 61 * 4, 61 * 4] or first[4] >= 61 * 4


@pytest.mark.parametrize(
    "line",
    [
        "        if buf1.item():",
        "        while should_loop: pass",
        "        s77 = arg0_1",
        "        u0 = buf1",
        "        x = [y for y in buf1]",
        "        buf2 = buf1.item()",
        "        buf2 = 1 if buf1 else 2",
    ],
)
def test_a_graph_that_may_differ_is_looked_at_each_time(tmp_path: Path, line: str) -> None:
    body = "\n            pass" if line.endswith(":") else ""
    code = CODE.replace("        args.clear()", f"        args.clear()\n{line}{body}")
    turn = itertools.count()

    def varies(graph: Graph) -> None:
        for _ in range(next(turn) % 3):
            graph.launch(0)

    graph = Graph(tmp_path, varies, code)
    graph(99)
    assert graph.counts == [[99], [99], []] and graph.held.settled is None


def test_code_that_cannot_be_read_is_not_fixed(tmp_path: Path) -> None:
    assert not settled.fixed(str(tmp_path / "none.py"))
    (tmp_path / "bad.py").write_text("def call(:")
    assert not settled.fixed(str(tmp_path / "bad.py"))
    (tmp_path / "long.py").write_text(CODE + "#" * settled.LARGEST)
    assert not settled.fixed(str(tmp_path / "long.py"))
    (tmp_path / "empty.py").write_text("")
    assert not settled.fixed(str(tmp_path / "empty.py"))


def _codes() -> Iterator[Path]:
    for path in (REPOSITORY / "tests" / "data").rglob("inductor/*/*.py"):
        if "def call(" in path.read_text():  # else it is a kernel's file
            yield path
    yield REPOSITORY / "tests" / "data" / "listing" / "output_code.py"
    yield REPOSITORY / "tests" / "data" / "analyse" / "forward.py"


@pytest.mark.parametrize("path", sorted(_codes()), ids=lambda p: p.stem[:12])
def test_real_graphs_are_fixed(path: Path) -> None:
    assert settled.fixed(str(path))


def test_other_launches_than_before_are_a_problem_and_looked_at_from_then_on(
    tmp_path: Path, alone: list[dict[str, Any]]
) -> None:
    more = [0]

    def varies(graph: Graph) -> None:
        for _ in range(2 + more[0]):
            graph.launch(0)

    graph = Graph(tmp_path, varies)
    graph(40)
    assert graph.counts == [[40], [80], []]
    more[0] = 1
    graph()
    assert [e["where"] for e in alone if "where" in e] == ["a graph's launches"]
    before = graph.counts
    assert before[0] == [41]  # the graph's own call is known
    graph(50)
    assert graph.counts == [[before[0][0] + 50], [before[1][0] + 150], []]
    assert graph.held.settled is None


def test_a_call_that_raises_is_not_counted(tmp_path: Path) -> None:
    fails = [False]

    def body(graph: Graph) -> None:
        graph.launch(0)
        if fails[0]:
            raise MemoryError

    graph = Graph(tmp_path, body)
    graph(40)
    for _ in range(3):
        fails[0] = True
        with pytest.raises(MemoryError):
            graph()
        fails[0] = False
        graph(40)
    assert calls.graph == [0, 0, None, calls.graph[3]]
    assert graph.counts[0] == [160]


def test_another_layout_or_alignment_is_seen_soon(tmp_path: Path) -> None:
    graph = Graph(tmp_path, three)
    graph(100)
    graph.tensors = aligned(64, by=4), aligned(64), aligned(8, 8)
    graph(100)
    first, second = graph.counts[0]
    assert first + second == 200 and 100 <= first < 100 + settled.EVERY
    assert graph.held.settled is None


def test_a_graph_within_a_graph(tmp_path: Path) -> None:
    inside = Graph(tmp_path, three)

    def outer(graph: Graph) -> None:
        graph.launch(0)
        inside()
        graph.launch(1)

    outside = Graph(tmp_path, outer)
    for n in range(1, 120):
        outside()
        assert outside.counts == [[n], [n], [n]]
        assert inside.counts == [[n], [n, n], [n]]
    inside(50)
    assert inside.counts == [[169], [169, 169], [169]]


def test_kernels_that_no_graph_wrote_are_looked_at_each_time(tmp_path: Path) -> None:
    """An operator of the program's within a graph may launch what it likes."""
    sizes = itertools.cycle([64, 63, 62])

    def body(graph: Graph) -> None:
        graph.launch(0)
        graph.launch(1, n=next(sizes))

    graph = Graph(tmp_path, body)
    graph.kernels[1] = graph.kernel(7, calls_launch.stand)
    graph(99)
    assert graph.counts == [[99], [99], [33, 33, 33]] and graph.held.settled is not None


def test_launches_of_another_thread_are_its_own(tmp_path: Path) -> None:
    inside, done = threading.Event(), threading.Event()

    def waits(graph: Graph) -> None:
        graph.launch(0)
        inside.set()
        assert done.wait(60)

    graph, other = Graph(tmp_path, waits), Graph(tmp_path, three)
    other(100)

    def beside() -> None:
        for _ in range(100):
            assert inside.wait(60)
            inside.clear()
            other()
            done.set()

    thread = threading.Thread(target=beside)
    thread.start()
    for _ in range(100):
        done.clear()
        graph()
    thread.join()
    assert graph.counts == [[100], [100], []]
    assert other.counts == [[200], [200, 200], [200]]


def test_one_graph_in_many_threads(tmp_path: Path, alone: list[dict[str, Any]]) -> None:
    graph = Graph(tmp_path, three)
    graph(40)
    threads = [threading.Thread(target=graph, args=(2000,)) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert graph.counts == [[8040], [8040, 8040], [8040]]
    assert not [e for e in alone if "where" in e]


def test_a_forked_child_begins_anew(tmp_path: Path) -> None:
    graph = Graph(tmp_path, three)
    graph(50)
    calls._forget()
    assert calls._pending() == []
    graph(7)
    assert graph.counts == [[7], [7, 7], [7]]


def test_while_something_is_tuned_nothing_is_passed_over(tmp_path: Path) -> None:
    graph = Graph(tmp_path, three)
    graph(50)
    before = graph.counts
    with calls.benchmark():
        graph(5)
    held = calls_launch.standing(graph.kernels[0])
    assert held is not None and held.held.benchmarks[0] == 10
    assert graph.counts[1:] == before[1:]
