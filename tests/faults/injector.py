"""Runs programs with one fault each, and compares them with a run that has none."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.faults.instrument import instrument
from tests.helpers import warm

PROGRAMS = Path(__file__).parent / "programs"
NAMES = ("threads", "compiled", "extension", "processes", "languages")
KINDS = ("first", "third", "base", "full", "delay")
"""RuntimeError at the first and at the third call, a BaseException, a full disk, two seconds."""
SECONDS = 60
"""After which a program hangs."""
AT_ONCE = 4
"""Programs that run at the same time: some of them sleep."""


class Fault(NamedTuple):
    """A kind of fault in a function, by its number, while a program runs."""

    function: int
    kind: str
    program: str


@dataclass(frozen=True)
class Outcome:
    """How a program ended and what it said; the lines of its log."""

    status: int | None
    out: str
    err: str
    log: tuple[str, ...]

    def difference(self, other: Outcome) -> str | None:
        """The first lines that differ from another outcome's; None if none does."""
        if self.status != other.status:
            return f"exit status {self.status}, not {other.status}: {self.err.strip()[-300:]}"
        for mine, its in ((self.out, other.out), (self.err, other.err)):
            lines = list(unified_diff(its.splitlines(), mine.splitlines(), lineterm="", n=0))[3:]
            if lines:
                return "\n".join(lines[:4])[:300]
        return None


class Injector:
    """Programs in children of one interpreter, in one folder; close() ends it."""

    def __init__(self, folder: Path, caches: Path, names: Sequence[str] = NAMES) -> None:
        self.folder, self.caches, self.names = folder, caches, names
        self.functions = instrument(folder)
        self._numbers = count()
        probes = folder / "inspector" / "probes"
        self._env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))},
            "PTXVIEW_TARGET": "sm_90",
            "PTXVIEW_VALUES": "budget",
            "PTXVIEW_DEVICES": "1",
            "FAULT_PROGRAMS": str(Path(__file__).parents[1] / "data" / "languages"),
            "XDG_CACHE_HOME": str(caches),
            "CUDA_VISIBLE_DEVICES": "",
            "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_VEC_ISA_OK": "0",
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            "PYTHONWARNINGS": "ignore",
        }
        server = [sys.executable, str(Path(__file__).with_name("server.py")), str(probes)]
        self._server = warm.Warm(folder / "server", server, self._env)
        self._bootstrap = str(probes / "bootstrap")
        # Compilers' caches: each program has copies of them as they are after the first.
        self._ready: dict[str, Path] = {}
        self.expected = {name: self.run(name, recorded=False) for name in names}

    def close(self) -> None:
        """End the interpreter."""
        self._server.leave()
        self._server.wait()

    def run(self, program: str, fault: Fault | None = None, recorded: bool = True) -> Outcome:
        """One program, in a new folder."""
        place = self.folder / f"run{next(self._numbers)}"
        (place / "recording" / "blobs").mkdir(parents=True)
        (place / "cache" / "triton").mkdir(parents=True)
        if program in self._ready:
            shutil.copytree(
                self._ready[program], place / "cache", copy_function=os.link, dirs_exist_ok=True
            )
        env = {
            **self._env,
            "TRITON_CACHE_DIR": str(place / "cache" / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(place / "cache" / "inductor"),
            "FAULT_LOG": str(place / "log"),
        }
        if recorded:
            env |= {"PTXVIEW_RECORDING": str(place / "recording"), "PYTHONPATH": self._bootstrap}
        if fault is not None:
            env["FAULT"] = f"{fault.function}:{fault.kind}"
        (place / "in").touch()
        with ExitStack() as files:
            streams = [
                files.enter_context((place / name).open(mode)).fileno()
                for name, mode in (("in", "r"), ("out", "w"), ("err", "w"))
            ]
            argv = [str(PROGRAMS / f"{program}.py")]
            child = self._server.start(argv, env, place, streams)
            try:
                status: int | None = child.wait(SECONDS)
            except TimeoutError:
                status = None
        said = [(place / name).read_text(errors="replace") for name in ("out", "err")]
        log = (place / "log").read_text().split() if (place / "log").exists() else ()
        if program not in self._ready:
            self._ready[program] = (place / "cache").rename(self.folder / f"ready-{program}")
        shutil.rmtree(place, ignore_errors=True)  # a child of a child may still write
        out, err = (text.replace(str(place), "…") for text in said)
        err = "".join(
            line for line in err.splitlines(keepends=True) if not line.startswith("ptxview: ")
        )
        return Outcome(status, out, err, tuple(log))

    def called(self) -> dict[str, dict[int, int]]:
        """Of each program the functions that it calls: once (1), or at least thrice (3)."""
        found: dict[str, dict[int, int]] = {}
        for name in self.names:
            outcome = self.run(name)
            difference = outcome.difference(self.expected[name])
            assert difference is None, f"{name} is another without faults: {difference}"
            numbers = found.setdefault(name, {})
            for line in outcome.log:
                number, times = map(int, line.split(":"))
                numbers[number] = max(times, numbers.get(number, 0))
        return found

    def faults(self, called: dict[str, dict[int, int]]) -> Iterator[Fault]:
        """All that can be met in these programs."""
        for program, numbers in called.items():
            for number, times in sorted(numbers.items()):
                for kind in KINDS:
                    if kind == "third" and times < 3:
                        continue
                    if kind != "full" or self.functions[number].writes:
                        yield Fault(number, kind, program)

    def inject(self, faults: Iterable[Fault]) -> Iterator[tuple[Fault, bool, str | None]]:
        """Of each fault whether it fired, and what it changed (None: nothing)."""

        def one(fault: Fault) -> tuple[Fault, bool, str | None]:
            outcome = self.run(fault.program, fault)
            return fault, bool(outcome.log), outcome.difference(self.expected[fault.program])

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(one, faults)


def sample(faults: Sequence[Fault], size: int, seed: int) -> list[Fault]:
    """Some of the faults, the same for the same seed."""
    return random.Random(seed).sample(faults, min(size, len(faults)))
