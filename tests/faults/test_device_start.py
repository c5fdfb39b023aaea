"""A fault of any function that sets up the emulated device is one sentence on stderr."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.instrument import instrument
from tests.probes.conftest import needs_torch

ELSEWHERE = ("replay", "cross_compile", "bootstrap")
PROGRAM = 'import torch; print(torch.zeros(3, device="cuda").device, torch.cuda.is_available())'
SENTENCE = "ptxview: the emulated CUDA device could not be set up ("
ANSWERS = "emulator.cuda.attach."
"""What the device answers the program once it is set up: an error of these is the program's."""
SAMPLE = 2
AT_ONCE = 2


class Start(NamedTuple):
    """What a program that uses the device printed, and the problems that were recorded."""

    out: str
    err: str
    problems: tuple[str, ...]
    called: tuple[int, ...]

    @property
    def sentences(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith(SENTENCE)]


class Starts:
    """Programs on instrumented probes, each in a new interpreter."""

    def __init__(self, folder: Path, caches: Path) -> None:
        self.folder, self.caches = folder, caches
        self.functions = instrument(folder, ELSEWHERE)
        self.bare = self.run(None)
        assert self.bare.out == "cuda:0 True\n", self.bare.err

    def run(self, function: int | None) -> Start:
        place = self.folder / f"run-{function}"
        (place / "recording" / "blobs").mkdir(parents=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("PTXVIEW_")} | {
            "PYTHONPATH": str(self.folder / "inspector" / "probes" / "bootstrap"),
            "PTXVIEW_RECORDING": str(place / "recording"),
            "PTXVIEW_TARGET": "sm_90",
            "XDG_CACHE_HOME": str(self.caches),
            "FAULT_LOG": str(place / "log"),
            "CUDA_VISIBLE_DEVICES": "",
        }
        if function is not None:
            env["FAULT"] = f"{function}:first"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, text=True, capture_output=True, check=False
        )
        lines = [
            json.loads(line)
            for file in (place / "recording").glob("events*.jsonl")
            for line in file.read_text().splitlines()
        ]
        problems = tuple(str(e["text"]) for e in lines if e["event"] == "problem")
        log = (place / "log").read_text().split() if (place / "log").exists() else []
        return Start(done.stdout, done.stderr, problems, tuple(int(n.split(":")[0]) for n in log))

    def numbers(self) -> list[int]:
        """The functions that set up the device."""
        reached = sorted(set(self.bare.called))
        return [n for n in reached if not self.functions[n].name.startswith(ANSWERS)]

    def silent(self, numbers: Sequence[int]) -> Iterator[str]:
        """Functions whose fault costs the program its device without one sentence on it."""

        def lost(number: int) -> str | None:
            start = self.run(number)
            if start.out == self.bare.out:
                return None
            recorded = any("could not be set up" in text for text in start.problems)
            if len(start.sentences) == 1 and recorded:
                return None
            said = start.err.strip().splitlines()[-1:]
            told = f"{len(start.sentences)} sentences, {'' if recorded else 'not '}recorded"
            return f"{self.functions[number].name}: {told}: {said}"

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from filter(None, pool.map(lost, numbers))


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory, common: Path) -> Starts:
    needs_torch()
    return Starts(tmp_path_factory.mktemp("start") / "copy", common / "target-caches")


def test_a_sample_of_faults_leaves_the_device_or_reports_that_it_is_missing(starts: Starts) -> None:
    numbers = starts.numbers()
    assert len(numbers) > 80
    install, load = (
        next(n for n in numbers if starts.functions[n].name == name)
        for name in ("emulator.__init__.install", "emulator.shim.load")
    )
    for number in (install, load):
        start = starts.run(number)
        assert start.out == "" and len(start.sentences) == 1, start.err
    others = [number for number in numbers if number not in (install, load)]
    assert list(starts.silent(random.Random(3).sample(others, SAMPLE))) == []


@pytest.mark.nightly
def test_every_fault_leaves_the_device_or_reports_that_it_is_missing(starts: Starts) -> None:
    assert list(starts.silent(starts.numbers())) == []
