"""Samples, and the vendor's disassembler to compare with."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from inspector.system.process import Finished, run_tool

DATA = Path(__file__).parent.parent / "data" / "parsers"

Disassembler = Callable[..., str]


@cache
def find_nvdisasm() -> Path:
    """nvdisasm of NVIDIA's wheel, which is the newer one, or of triton's."""
    for package, inside in (
        ("nvidia", "cu13/bin/nvdisasm"),
        ("triton", "backends/nvidia/bin/nvdisasm"),
    ):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (found := Path(folder) / inside).exists():
                return found
    raise AssertionError("no nvdisasm: install nvidia-cuda-nvdisasm or triton")


SAID: Path | None = None
"""Where what a tool has said is kept for all tests and xdist workers, while they run."""


def said_of(file: str | Path, tool: str | Path, *options: str) -> bytes:
    """What one of NVIDIA's tools prints of a file: each is asked once of the same content."""
    argv = [str(tool), *options, str(file)]
    if SAID is None:
        return subprocess.run(argv, capture_output=True, check=True).stdout
    if _disassembles(tool):
        done = remembered(argv)
        if done.status:
            raise subprocess.CalledProcessError(done.status, argv, done.out, done.err)
        return done.out
    asked = hashlib.sha256(repr((argv[:-1], Path(file).name)).encode() + Path(file).read_bytes())
    kept = SAID / asked.hexdigest()
    if not kept.exists():
        _keep(kept, subprocess.run(argv, capture_output=True, check=True).stdout)
    return kept.read_bytes()


def remembered(argv: Sequence[str | Path], **more: Any) -> Finished:
    """``run_tool`` of NVIDIA's own disassembler, a third of a second to start: once of a content.

    What it said well is the same each time; another tool of its name is started as ever.
    """
    tool, *options, file = map(str, argv)
    if SAID is None or not _disassembles(tool):
        return run_tool(argv, **more)
    asked = hashlib.sha256(
        repr((str(Path(tool).resolve()), options)).encode() + Path(file).read_bytes()
    )
    kept = SAID / f"{asked.hexdigest()}.ended"
    try:
        ended: Finished = pickle.loads(kept.read_bytes())
    except FileNotFoundError:
        ended = run_tool(argv, **more)
        if ended.status == 0:
            _keep(kept, pickle.dumps(ended))
    return ended


def _disassembles(tool: str | Path) -> bool:
    return Path(tool).resolve() == find_nvdisasm().resolve()


def _keep(place: Path, data: bytes) -> None:
    place.parent.mkdir(exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(data)
    part.replace(place)


@cache
def disassemble(name: str, *options: str) -> str:
    return said_of(DATA / name, find_nvdisasm(), *options).decode("utf-8", "surrogateescape")


def read_sample(name: str) -> str:
    return (DATA / name).read_bytes().decode("utf-8", "surrogateescape")
