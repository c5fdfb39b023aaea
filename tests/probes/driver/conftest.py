"""A process with a fake CUDA driver and CUPTI."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from inspector.recording.driver_records import keep_records
from inspector.recording.layout import Writer, read_events
from tests.helpers.ptxview import finished, saved
from tests.helpers.samples import DATA
from tests.helpers.tools import skip_without

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

SCRIPT = f"""
import ctypes, os, sys, time
driver = ctypes.CDLL("libcuda.so.1")
for name in ("stand_kernel", "stand_graph"):
    getattr(driver, name).restype = ctypes.c_void_p
DATA = {str(DATA)!r}

def cubin(name):
    with open(os.path.join(DATA, name), "rb") as file:
        return file.read()

def kernel(name, module=0, sizes=()):
    many = (ctypes.c_int * 8)(*sizes)
    return ctypes.c_void_p(driver.stand_kernel(
        name.encode(), ctypes.c_void_p(module), many, len(sizes)))

def load(module, data):
    driver.stand_load(ctypes.c_void_p(module), data, ctypes.c_size_t(len(data)))

def launch(kernel, grid=(1, 1), block=(32, 1), shared=0, stream=0, arguments=(), result=0):
    pointers = (ctypes.c_void_p * 8)(*[ctypes.addressof(a) for a in arguments])
    given = pointers if arguments else None
    driver.stand_launch(kernel, *grid, *block, shared, stream, given, result)

def graph(*nodes):
    one = ctypes.c_void_p(driver.stand_graph())
    for kind, of_kernel, grid, child in nodes:
        driver.stand_add(one, kind, of_kernel, grid, child)
    return one

from inspector.probes.driver import subscriber

def until(on):
    # Until the callbacks of launches are on, or off.
    began = time.monotonic()
    while driver.stand_enabled() != on:
        assert time.monotonic() - began < 20
        time.sleep(0.001)

def begin():
    # As the import of torch, and the first use of CUDA, would.
    subscriber.prepare()
    assert driver.stand_init() == 1
"""


@dataclass(frozen=True)
class Driven:
    """What one process left: its exit status and words, its recording's folder and events."""

    status: int
    out: str
    err: str
    folder: Path
    events: tuple[dict[str, Any], ...]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    def launches(self) -> dict[tuple[Any, ...], list[int]]:
        """Counts by kernel, grid and block: direct launches, replays, a bit a varied parameter."""
        counts: dict[tuple[int, str], list[int]] = {}
        for event in self.of("driver_counts"):
            counts |= {(event["pid"], key): value for key, value in event["counts"].items()}
        return {
            (e["name"], tuple(e.get("grid", ())), tuple(e.get("block", ()))): counts.get(
                (e["pid"], str(e["id"])), [0, 0, 0, 0]
            )
            for e in self.of("driver_launch")
        }


Drive = Callable[..., Driven]
LIBRARY = ("cc", "-shared", "-fPIC")
"""How a shared library is compiled."""


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in, as libcuda and as libcupti, compiled with NVIDIA's headers."""
    skip_without("cc")
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    headers = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    folder = tmp_path_factory.mktemp("stand-in")
    library = folder / "libcupti.so.13"  # by this name the process has it loaded, as torch's has
    subprocess.run(
        [*LIBRARY, "-O1", f"-I{headers}", HERE / "driver_fake_driver.c", "-o", library, "-ldl"],
        check=True,
    )
    (folder / "libcuda.so.1").symlink_to(library)
    return folder


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library, compiled as the installation does it."""
    skip_without("cc")
    path = tmp_path_factory.mktemp("driver") / "ptxview_driver.so"
    sources = sorted((ROOT / "inspector" / "probes" / "driver").glob("*.c"))
    options = (
        "-O2",
        "-Wall",
        "-Werror",
        "-fvisibility=hidden",
        "-pthread",
        "-ldl",
        "-Wl,-z,nodelete",
    )
    subprocess.run([*LIBRARY, *sources, "-o", path, *options], check=True)
    return str(path)


@pytest.fixture
def drive(fake_driver: Path, compiled: str, tmp_path: Path) -> Drive:
    """Run a program in which the stand-in is the driver, recorded as ``ptxview run`` would."""

    def run(program: str, **environment: str) -> Driven:
        folder = tmp_path / "recording"
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        script = saved(tmp_path / "program.py", SCRIPT + textwrap.dedent(program))
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": str(fake_driver),
            "PYTHONPATH": str(ROOT),
            "PTXVIEW_RECORDING": str(folder),
            "PTXVIEW_DRIVER": compiled,
            "CUDA_INJECTION64_PATH": compiled,
            "CUDA_HOME": str(tmp_path / "none"),
            **environment,
        }
        done = finished([sys.executable, script], env=env, seconds=60)
        if not folder.exists():
            return Driven(done.status, done.text, done.said, folder, ())
        before = read_events(folder).events
        writer = Writer(folder)
        keep_records(folder, writer.blob)
        writer.close()
        events = read_events(folder).events
        assert [e for e in events if e["event"] != "driver_counts"] == [
            e for e in before if e["event"] != "driver_counts"
        ]
        return Driven(done.status, done.text, done.said, folder, tuple(events))

    return run
