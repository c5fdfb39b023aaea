"""CUPTI's records as they are read, of a libcupti that NVIDIA's own header lays out, and by hers.

The headers and a libcupti come with Triton's wheel; a C compiler makes the rest.
"""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inspector.probes.replay import driver as probe
from inspector.probes.replay.driver import Cupti, Event, Unavailable, trace_of
from tests.helpers.ptxview import printed, saved, tool

FAKE = Path(__file__).parents[2] / "data" / "bench" / "fake_cupti.c"
VERSIONS = {
    "CUDA 11": (
        "CUpti_ActivityKernel5",
        "CUpti_ActivityMemcpy4",
        "CUpti_ActivityMemcpyPtoP3",
        "CUpti_ActivityMemset3",
    ),
    "CUDA 12": (
        "CUpti_ActivityKernel9",
        "CUpti_ActivityMemcpy6",
        "CUpti_ActivityMemcpyPtoP4",
        "CUpti_ActivityMemset4",
    ),
}


def nvidia() -> Path:
    """Where Triton's wheel keeps what NVIDIA wrote."""
    spec = importlib.util.find_spec("triton")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "backends" / "nvidia"


@pytest.fixture(scope="module", params=VERSIONS, ids=str)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = zip(("KERNEL", "COPY", "PEER", "FILL"), VERSIONS[request.param], strict=True)
    path = tmp_path_factory.mktemp("cupti") / "libcupti.so.12"
    options = [f"-I{nvidia() / 'include'}", *(f"-D{name}={struct}" for name, struct in names)]
    printed(tool("cc"), "-shared", "-fPIC", "-w", *options, "-o", path, FAKE)
    return path


@pytest.fixture
def lib(built: Path, tmp_path: Path) -> ctypes.CDLL:
    own = tmp_path / "libcupti.so.12"  # a copy has its own state
    shutil.copy(built, own)
    return ctypes.CDLL(str(own))


NAMES = [b"square_kernel", b"_Z13square_matrixPKfPfii", b"f"]


def kernel(lib: Any, at: int, start: int, end: int) -> None:
    lib.does_kernel(ctypes.c_char_p(NAMES[at]), ctypes.c_uint64(start), ctypes.c_uint64(end))


def test_kernels_copies_and_fills_are_read_as_the_header_lays_them_out(lib: Any) -> None:
    cupti = Cupti(torch_of(), lib)
    kernel(lib, 0, 1, 2)  # before it was asked for
    cupti.start()
    kernel(lib, 0, 1000, 2376)
    lib.does_copy(8, 3, 3, ctypes.c_uint64(3000), ctypes.c_uint64(4000))
    lib.does_copy(1, 2, 3, ctypes.c_uint64(4000), ctypes.c_uint64(4500))
    lib.does_copy_to_a_peer(ctypes.c_uint64(5000), ctypes.c_uint64(5001))
    lib.does_fill(3, ctypes.c_uint64(1 << 62), ctypes.c_uint64((1 << 62) + 7))
    kernel(lib, 1, 6000, 6032)
    kernel(lib, 2, 7000, 7032)
    kernel(lib, 2, 0, 0)  # CUPTI's way to say that it has no time of it
    cupti.flush()
    assert cupti.take_events() == [
        Event("square_kernel", 1000, 1376),
        Event("Memcpy DtoD (Device -> Device)", 3000, 1000),
        Event("Memcpy HtoD (Pinned -> Device)", 4000, 500),
        Event("Memcpy PtoP (Device -> Device)", 5000, 1),
        Event("Memset (Device)", 1 << 62, 7),
        Event("square_matrix(float const*, float*, int, int)", 6000, 32),
        Event("f", 7000, 32),
    ]
    assert cupti.take_events() == []
    cupti.stop()
    kernel(lib, 0, 1, 2)
    cupti.flush()
    assert cupti.take_events() == []


def test_more_than_a_buffer_holds_is_not_lost(lib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "BUFFER_BYTES", 4096)
    cupti = Cupti(torch_of(), lib)
    cupti.start()
    for turn in range(3):
        for n in range(1, 501):
            kernel(lib, 0, n, n + turn + 1)
        cupti.flush()
        events = cupti.take_events()
        assert [e.start for e in events] == list(range(1, 501))
        assert {e.ns for e in events} == {turn + 1}
    assert len(cupti._buffers) < 50  # they are used again


def test_what_cannot_be_enabled_says_so_in_cuptis_words(lib: Any) -> None:
    lib.is_broken(1)
    with pytest.raises(Unavailable, match=r"cuptiActivityEnable: .*PRIVILEGES \(35\)"):
        Cupti(torch_of(), lib).start()


@pytest.mark.parametrize("built", ["CUDA 12"], indirect=True)
def test_nvidias_own_library_walks_the_records(lib: Any) -> None:
    real = ctypes.CDLL(str(next((nvidia() / "lib" / "cupti").glob("libcupti.so*"))))
    cupti = Cupti(torch_of(), lib)
    cupti.start()
    for n in range(1, 41):
        kernel(lib, n % 2, 100 * n, 100 * n + n)
    lib.does_fill(3, ctypes.c_uint64(9000), ctypes.c_uint64(9001))
    lib.does_copy(8, 3, 3, ctypes.c_uint64(9100), ctypes.c_uint64(9300))
    cupti.flush()
    cupti._next = Cupti(torch_of(), real)._next
    events = cupti.take_events()
    assert [(e.start, e.ns) for e in events] == [
        *((100 * n, n) for n in range(1, 41)),
        (9000, 1),
        (9100, 200),
    ]


def torch_of(profiled: bool = False) -> Any:
    return SimpleNamespace(
        cuda=SimpleNamespace(synchronize=lambda: None),
        version=SimpleNamespace(cuda="12.8"),
        autograd=SimpleNamespace(_profiler_enabled=lambda: profiled),
    )


def test_records_that_come_late_are_waited_for(lib: Any) -> None:
    lib.is_late(2)

    def work() -> None:
        kernel(lib, 0, 50, 60)
        kernel(lib, 0, 10, 30)

    with Cupti(torch_of(), lib) as trace:
        for _ in range(3):
            seen = trace.saw(work, lambda events: len(events) == 2)
            assert [(e.start, e.ns) for e in seen] == [(10, 20), (50, 10)]


def test_what_another_profiler_took_away_is_had_again(lib: Any) -> None:
    cupti = Cupti(torch_of(), lib)
    others = Cupti(torch_of(), lib)

    def theirs() -> None:  # a call that runs another profiler
        others.start()
        kernel(lib, 0, 1, 2)
        others.stop()

    with cupti as trace:
        assert trace.saw(theirs, lambda events: len(events) == 1) == []
        seen = trace.saw(lambda: kernel(lib, 0, 5, 9), lambda events: len(events) == 1)
    assert [e.ns for e in seen] == [4]


def test_beside_the_programs_own_profiler_it_steps_aside(lib: Any) -> None:
    with pytest.raises(Unavailable, match="profiler of the program's own"):
        Cupti(torch_of(profiled=True), lib).__enter__()


def test_without_cupti_there_is_no_trace_and_a_reason(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "find_cupti", lambda: None)
    with pytest.raises(Unavailable, match="no libcupti was found"):
        trace_of(torch_of())
    broken = saved(tmp_path / "libcupti.so.12", b"no library")
    monkeypatch.setattr(probe, "find_cupti", lambda: str(broken))
    with pytest.raises(Unavailable, match="CUPTI cannot be used"):
        trace_of(torch_of())
    monkeypatch.setattr(probe, "find_cupti", lambda: str(built))
    assert isinstance(trace_of(torch_of()), Cupti)
