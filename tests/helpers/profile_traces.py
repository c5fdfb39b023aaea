"""Traces as Kineto writes them, made by hand: known calls, known launches, known times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


class Made:
    """A trace that grows; times in µs."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._number = 0

    def cpu(
        self, name: str, start: float, took: float, category: str = "cpu_op", **args: Any
    ) -> int:
        """A span of the CPU; the number by which the GPU's work names it."""
        self._number += 1
        held = {"External id": self._number, **args}
        self._span(category, name, 7, start, took, held)
        return self._number

    def launched(
        self,
        path: Sequence[str],
        kernel: str,
        at: float,
        took: float,
        launch: float = 2.0,
        block: int = 128,
        grid: int = 10,
        registers: int = 16,
        later: float = 4.0,
    ) -> None:
        """Operators within each other, of which the innermost launches a kernel."""
        number = 0
        for n, name in enumerate(path):
            number = self.cpu(name, at + n * 0.25, 6.0 - n)
        correlation = 1_000_000 + len(self.events)
        call = {"External id": number, "cbid": 211, "correlation": correlation}
        self._span("cuda_runtime", "cudaLaunchKernel", 7, at + 1.5, launch, call)
        shape = {"grid": [grid, 1, 1], "block": [block, 1, 1], "registers per thread": registers}
        work = {"External id": number, "device": 0, "stream": 7, "correlation": correlation}
        self._span("kernel", kernel, 0, at + later, took, {**work, **shape, "shared memory": 0})

    def _span(
        self, category: str, name: str, pid: int, start: float, took: float, args: dict[str, Any]
    ) -> None:
        where = {"pid": pid, "tid": 7, "ts": start, "dur": took}
        self.events.append({"ph": "X", "cat": category, "name": name, **where, "args": args})

    def json(self) -> str:
        lines = ",\n".join("  " + json.dumps(e) for e in self.events)
        head = '"schemaVersion": 1,\n"deviceProperties": [{"id": 0, "name": "Made Up"}],\n'
        return '{\n%s"traceEvents": [\n%s\n], "traceName": "x"\n}' % (head, lines)  # noqa: UP031
