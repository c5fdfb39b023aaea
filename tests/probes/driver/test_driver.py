"""What is seen at the CUDA driver's boundary, with a stand-in for the driver and for CUPTI."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from inspector.parsers.cubin import read_cubin
from inspector.recording.decoding import tolerant
from inspector.recording.events import NotLaunched
from inspector.recording.failures import of_launch
from inspector.recording.gpu_times import COPY, MARK, read_timeline
from inspector.sources.running import Run, RunRequest
from inspector.system import toolchain
from tests.helpers.samples import DATA
from tests.probes.driver.conftest import Drive, Driven

GELU = "gelu_sm90.cubin"
BEGIN = "begin()"
SOURCE = Path(__file__).parents[3] / "inspector" / "probes" / "driver" / "driver.c"


def entry(name: str) -> str:
    """The first kernel of a sample."""
    cubin = read_cubin((DATA / name).read_bytes())
    assert cubin is not None
    return cubin.entries[0]


@pytest.fixture(scope="module")
def gelu() -> str:
    return entry(GELU)


def test_numbers_of_callbacks_are_those_of_cupti() -> None:
    spec = find_spec("triton")
    assert spec is not None and spec.origin is not None
    headers = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    numbers = {
        name: int(number)
        for header in ("cupti_driver_cbid.h", "cupti_callbacks.h")
        for name, number in re.findall(
            r"(\w+CBID_\w+)\s*=\s*(\d+),", (headers / header).read_text()
        )
    }
    source = SOURCE.read_text()
    ours = {
        name: int(number) for name, number in re.findall(r"\b([A-Z_0-9]+) = (\d+)[,\s}]", source)
    }
    expected = {
        "LOAD": "cuModuleLoad",
        "LOAD_DATA": "cuModuleLoadData",
        "LOAD_FATBIN": "cuModuleLoadFatBinary",
        "LOAD_DATA_EX": "cuModuleLoadDataEx",
        "GET_FUNCTION": "cuModuleGetFunction",
        "LAUNCH": "cuLaunchKernel",
        "LAUNCH_PTSZ": "cuLaunchKernel_ptsz",
        "LAUNCH_EX": "cuLaunchKernelEx",
        "LAUNCH_EX_PTSZ": "cuLaunchKernelEx_ptsz",
        "COOPERATIVE": "cuLaunchCooperativeKernel",
        "COOPERATIVE_PTSZ": "cuLaunchCooperativeKernel_ptsz",
        "COOPERATIVE_MULTI": "cuLaunchCooperativeKernelMultiDevice",
        "CAPTURE": "cuStreamBeginCapture",
        "CAPTURE_PTSZ": "cuStreamBeginCapture_ptsz",
        "CAPTURED": "cuStreamEndCapture",
        "CAPTURED_PTSZ": "cuStreamEndCapture_ptsz",
        "CAPTURE_2": "cuStreamBeginCapture_v2",
        "CAPTURE_2_PTSZ": "cuStreamBeginCapture_v2_ptsz",
        "CAPTURE_TO": "cuStreamBeginCaptureToGraph",
        "CAPTURE_TO_PTSZ": "cuStreamBeginCaptureToGraph_ptsz",
        "INSTANTIATE": "cuGraphInstantiate",
        "INSTANTIATE_2": "cuGraphInstantiate_v2",
        "INSTANTIATE_FLAGS": "cuGraphInstantiateWithFlags",
        "INSTANTIATE_PARAMS": "cuGraphInstantiateWithParams",
        "INSTANTIATE_PARAMS_PTSZ": "cuGraphInstantiateWithParams_ptsz",
        "GRAPH_LAUNCH": "cuGraphLaunch",
        "GRAPH_LAUNCH_PTSZ": "cuGraphLaunch_ptsz",
        "EXEC_DESTROY": "cuGraphExecDestroy",
        "SET_NODE": "cuGraphExecKernelNodeSetParams",
        "SET_NODE_2": "cuGraphExecKernelNodeSetParams_v2",
        "SET_ANY_NODE": "cuGraphExecNodeSetParams",
        "UPDATE": "cuGraphExecUpdate",
        "UPDATE_2": "cuGraphExecUpdate_v2",
        "GET_KERNEL": "cuLibraryGetKernel",
        "KERNEL_FUNCTION": "cuKernelGetFunction",
    }
    watched = "".join(re.findall(r"(?:WATCHED|SAMPLED)\[\] = \{([^}]*)\}", source))
    assert set(re.findall(r"\w+", watched)) == set(expected)
    for own, name in expected.items():
        assert ours[own] == numbers[f"CUPTI_DRIVER_TRACE_CBID_{name}"], name
    assert ours["MODULE_LOADED"] == numbers["CUPTI_CBID_RESOURCE_MODULE_LOADED"]


def test_a_launch_is_recorded_by_kernel_and_geometry(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        data = cubin({GELU!r})
        load(0x10, data)
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        for _ in range(5): launch(one, (7, 2), (64, 4), 1024)
        for _ in range(3): launch(one, (8, 2), (64, 4))
        launch(one, (9, 1), result=1)
        driver.stand_launch_cluster(one, 4, 2)
    """)
    assert done.status == 0, done.err
    assert done.launches() == {
        (gelu, (7, 2, 1), (64, 4, 1)): [5, 0, 0, 0],
        (gelu, (8, 2, 1), (64, 4, 1)): [3, 0, 0, 0],
        (gelu, (4, 1, 1), (128, 1, 1)): [1, 0, 0, 0],
    }  # without the refused one
    first, _, clustered = done.of("driver_launch")
    assert (first["shared_bytes"], first["device"]) == (1024, 0)
    assert clustered["cluster"] == [2, 1, 1]
    content = (DATA / GELU).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert {e["module"] for e in done.of("driver_launch")} == {digest}
    assert (done.folder / "blobs" / digest).read_bytes() == content


def test_a_refused_launch_is_recorded_once_with_the_drivers_words(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        for _ in range(3): launch(one, (1, 1), (96, 1), result=1)
        launch(one, (2, 1), (1024, 1), 512, result=701)
        for n in range(70): launch(one, (4 + n, 1), result=720)
        launch(one, (3, 1), result=700)  # what an earlier kernel's fault has every call answer
    """)
    assert done.status == 0, done.err
    digest = hashlib.sha256((DATA / GELU).read_bytes()).hexdigest()
    told = [
        (e["symbol"], e["hash"], e["kind"], e["error"], e["grid"], e["block"], e["shared_bytes"])
        for e in done.of("not_launched")
    ]
    assert len(told) == 64 and done.of("driver_counts")[-1]["lost_refusals"] == 8
    assert told[:2] == [
        (gelu, digest, "CUDA_ERROR_INVALID_VALUE", "invalid argument", [1, 1, 1], [96, 1, 1], 0),
        (
            gelu,
            digest,
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            "too many resources requested for launch",
            [2, 1, 1],
            [1024, 1, 1],
            512,
        ),
    ]
    assert (done.folder / "blobs" / digest).exists() and not done.of("driver_launch")
    failure = of_launch(tolerant(done.of("not_launched")[0], NotLaunched))
    assert failure is not None and failure.message == (
        "CUDA_ERROR_INVALID_VALUE: invalid argument (grid 1×1×1, blocks of 96×1×1, "
        "0 bytes of dynamic shared memory)"
    )


def test_of_modules_with_the_same_name_it_is_the_one_that_was_asked_for(drive: Drive) -> None:
    # One kernel of two compilations: only the handles tell them apart.
    done = drive(f"""
        {BEGIN}
        old, new = cubin("zoo_sm75.cubin"), cubin("zoo_sm90.cubin")
        load(1, old); load(2, new)
        name = {entry("zoo_sm90.cubin")!r}
        first, second = kernel(name, 1), kernel(name, 2)
        launch(first, (1, 1)); launch(second, (2, 1))
        load(1, new)
        launch(first, (3, 1))
    """)
    assert done.status == 0, done.err
    old, new = (
        hashlib.sha256((DATA / name).read_bytes()).hexdigest()
        for name in ("zoo_sm75.cubin", "zoo_sm90.cubin")
    )
    assert [e["module"] for e in done.of("driver_launch")] == [old, new, new]


def test_parameters_are_those_of_the_first_launch_and_what_varies_is_said(
    drive: Drive, gelu: str
) -> None:
    done = drive(f"""
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1, (8, 4, 4))
        for n in range(3):
            values = ctypes.c_uint64(0x7f00), ctypes.c_int(781), ctypes.c_float(n)
            launch(one, (2, 1), arguments=values)
        packed = (ctypes.c_ubyte * 16)(*range(16))
        other = kernel({gelu!r}, 1, (8, 4))
        driver.stand_launch_buffer(other, packed, ctypes.c_size_t(16))
    """)
    first, buffered = done.of("driver_launch")
    assert first["parameters"] == ["007f000000000000", "0d030000", "00000000"]
    assert done.launches()[gelu, (2, 1, 1), (32, 1, 1)] == [3, 0, 0b100, 0]
    assert buffered["parameters"] == ["0001020304050607", "08090a0b"]


def test_launches_of_an_autotuner_are_counted_apart(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        from inspector.probes.calls import call_counts
        launch(one)
        call_counts.comparing(lambda: [launch(one) for _ in range(7)])()
        launch(one)
    """)
    assert done.status == 0, done.err
    own, tuned = done.of("driver_launch")
    assert "tuning" not in own and tuned["tuning"] is True
    counts = done.of("driver_counts")[-1]["counts"]
    assert [counts[str(e["id"])][0] for e in (own, tuned)] == [2, 7]


def test_replays_of_graphs_count_and_captures_do_not(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        driver.stand_get_function(one, ctypes.c_void_p(1))
        driver.stand_capture(1)
        launch(one, (5, 1), stream=2)
        launch(one, (6, 1), stream=3)      # another stream, which is not being captured
        driver.stand_capture(0)
        inner = graph((0, one, 11, None))
        whole = graph((0, one, 5, None), (0, one, 5, None), (1, None, 0, None), (4, None, 0, inner))
        exec_ = ctypes.c_void_p(0x99)
        driver.stand_instantiate(whole, exec_)
        for _ in range(10): driver.stand_replay(exec_)
        driver.stand_update(exec_, graph((0, one, 13, None)))
        for _ in range(4): driver.stand_replay(exec_)
        driver.stand_destroy(exec_)
        driver.stand_instantiate(graph(), exec_)
        driver.stand_replay(exec_)
    """)
    assert done.status == 0, done.err
    block = (32, 1, 1)
    assert done.launches() == {
        (gelu, (5, 1, 1), block): [0, 20, 0, 1],
        (gelu, (6, 1, 1), block): [1, 0, 0, 0],
        (gelu, (11, 1, 1), block): [0, 10, 0, 0],
        (gelu, (13, 1, 1), block): [0, 4, 0, 0],
    }
    assert not any("lost_graphs" in e for e in done.of("driver_counts"))


def test_counts_survive_a_kill_but_for_the_last_moment(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        import signal, time
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        for _ in range(50): launch(one)
        time.sleep(1)
        launch(one)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert done.status == -9
    assert done.launches()[gelu, (1, 1, 1), (32, 1, 1)] == [50, 0, 0, 0]


def test_a_child_by_fork_tells_its_own(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        subscriber.install()
        subscriber.prepare()
        def work(times):
            assert driver.stand_init() == 1
            load(1, cubin({GELU!r}))
            one = kernel({gelu!r}, 1)
            for _ in range(times): launch(one, (times, 1))
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=work, args=(4,))
        child.start(); child.join()
        work(2)
    """)
    assert done.status == 0, done.err
    assert {e["pid"] for e in done.of("driver")} == {e["pid"] for e in done.of("driver_launch")}
    assert sorted(done.launches().values()) == [[2, 0, 0, 0], [4, 0, 0, 0]]


@pytest.fixture(scope="module")
def native_program(fake_driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in C that initialises CUDA, launches a kernel seven times, and starts another."""
    folder = tmp_path_factory.mktemp("native")
    source, program = folder / "main.c", folder / "heat"
    source.write_text(
        f"""
        #include <stdio.h>
        #include <stdlib.h>
        void *stand_kernel(const char *, void *, const int *, int);
        void stand_launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, int, void **,
                          int);
        void stand_load(void *, const char *, size_t);
        int stand_init(void);
        int main(void) {{
          static char cubin[1 << 20];
          FILE *file = fopen("{DATA / GELU}", "rb");
          size_t bytes = fread(cubin, 1, sizeof cubin, file);
          int sizes[8] = {{0}};
          printf("%d\\n", stand_init());
          stand_load((void *)1, cubin, bytes);
          void *kernel = stand_kernel("{entry(GELU)}", (void *)1, sizes, 0);
          for (int i = 0; i < 7; i++) stand_launch(kernel, 3, 1, 64, 1, 0, 0, 0, 0);
          fflush(stdout);
          return 0;
        }}
        """
    )
    subprocess.run(["cc", source, fake_driver / "libcuda.so.1", "-o", program], check=True)
    return program


def test_launches_of_a_program_without_python_are_recorded(
    compiled: str,
    native_program: Path,
    fake_driver: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gelu: str,
) -> None:
    """``ptxview run -- PROGRAM`` on a machine with a GPU."""
    toolkit = tmp_path / "toolkit"
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "lib64" / "libcupti.so.13").symlink_to(fake_driver / "libcuda.so.1")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_driver))
    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(toolchain, "driver_library", lambda: Path(compiled))
    out = tmp_path / "recording"
    run = Run(RunRequest("command", (str(native_program),), out, python=sys.executable))
    done = subprocess.run(run.argv, env=run.env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1"], done.stderr
    recording = run.ended(done.returncode, print).recording
    assert recording is not None
    (kernel,) = recording.kernels
    (variant,) = kernel.variants
    assert (variant.symbol, variant.launches) == (gelu, 7)
    (launch,) = variant.calls
    assert (launch.grid, launch.block) == ((3, 1, 1), (64, 1, 1))


def test_we_leave_before_a_profiler_begins(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        import types
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        launch(one)
        cupti = ctypes.CDLL("libcupti.so.13")
        import sys
        profiler = sys.modules["a_profiler"] = types.ModuleType("a_profiler")
        profiler._prepare_profiler = lambda: cupti.cuptiSubscribe(
            ctypes.byref(ctypes.c_void_p()), ctypes.c_void_p(1), None)
        subscriber.leave_before(profiler, ("_prepare_profiler",), "torch.profiler")
        assert cupti.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), ctypes.c_void_p(1), None) == 39
        print(profiler._prepare_profiler())
    """)
    assert done.out.split() == ["0"], done.err
    assert [e["why"] for e in done.of("driver_left")] == ["torch.profiler"]
    assert done.launches() == {(gelu, (1, 1, 1), (32, 1, 1)): [1, 0, 0, 0]}


@pytest.mark.parametrize(
    "variable", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NV_TPS_LAUNCH_TOKEN"]
)
def test_another_tool_at_the_driver_is_left_alone(drive: Drive, variable: str) -> None:
    done = drive(
        "subscriber.install()\nprint(driver.stand_init())\n", **{variable: "/nowhere/libtool.so"}
    )
    assert done.out.split() == ["-1"], done.err
    assert [e["beside"] for e in done.of("driver")] == [variable]


def test_a_full_disk_and_a_folder_that_is_gone_harm_nobody(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        import shutil
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        launch(one)
        shutil.rmtree(os.environ["PTXVIEW_RECORDING"])
        for n in range(10): launch(one, (n + 1, 1))
        print("goes on", os.path.exists(os.environ["PTXVIEW_RECORDING"]))
    """)
    assert done.status == 0 and done.out.split() == ["goes", "on", "False"], done.err


SAMPLES = {"PTXVIEW_DRIVER_MS": "100,100,700"}
"""Milliseconds without anything new until launches are sampled, of a window, and of its period."""


def test_launches_are_sampled_once_nothing_new_comes(drive: Drive, gelu: str) -> None:
    done = drive(
        f"""
        {BEGIN}
        load(1, cubin({GELU!r}))
        one = kernel({gelu!r}, 1)
        for _ in range(5): launch(one)
        until(0)
        for _ in range(1000): launch(one)
        assert not driver.stand_enabled()
        until(1)
        launch(one)
        until(0)
    """,
        **SAMPLES,
    )
    assert done.status == 0, done.err
    assert done.launches() == {(gelu, (1, 1, 1), (32, 1, 1)): [6, 0, 0, 0]}
    assert [e["exact"] for e in done.of("driver_counts")][-1] is False


def times(done: Driven) -> dict[tuple[Any, ...], list[int]]:
    """Launches, their sum in ns, the shortest and the quartiles, by kernel and grid."""
    rows: dict[str, list[int]] = {}
    for event in done.of("driver_times"):
        rows |= event["times"]
    return {
        (event["name"], tuple(event["grid"]), event.get("tuning", False)): rows[str(event["id"])]
        for event in done.of("driver_launch")
        if str(event["id"]) in rows
    }


def test_each_launch_is_timed_by_the_records_of_its_run(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        for ns in (500, 700, 900, 1100, 1300):
            driver.stand_duration(ctypes.c_uint64(ns))
            launch(one, (7, 2), (64, 4), 1024)
        driver.stand_duration(ctypes.c_uint64(50))
        launch(one, (8, 2), (64, 4))
    """)
    assert done.status == 0, done.err
    assert times(done) == {
        (gelu, (7, 2, 1), False): [5, 4500, 500, 700, 900, 1100],
        (gelu, (8, 2, 1), False): [1, 50, 50, 50, 50, 50],
    }


def test_launches_of_an_autotuner_are_timed_apart_and_by_its_thread_alone(
    drive: Drive, gelu: str
) -> None:
    done = drive(f"""
        import threading
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        launch(one, (7, 2), (64, 4))
        subscriber.tuning(is_under_way=True)
        driver.stand_duration(ctypes.c_uint64(40))
        for _ in range(3): launch(one, (7, 2), (64, 4))
        other = threading.Thread(target=lambda: launch(one, (7, 2), (64, 4)))
        other.start(), other.join()
        subscriber.tuning(is_under_way=False)
    """)
    assert done.status == 0, done.err
    assert {key: row[:2] for key, row in times(done).items()} == {
        (gelu, (7, 2, 1), False): [2, 540],
        (gelu, (7, 2, 1), True): [3, 120],
    }


def test_launches_of_one_kernel_are_distinguished_by_the_candidate_that_is_measured(
    drive: Drive, gelu: str
) -> None:
    done = drive(f"""
        {BEGIN}
        from inspector.probes.calls import call_counts
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        benchmark = call_counts.comparing(lambda: launch(one))
        for candidate, ns in ((5, 500), (0, 600), (70000, 700), (5, 800)):
            driver.stand_duration(ctypes.c_uint64(ns))
            call_counts.compare_candidate(candidate)
            benchmark()
            call_counts.compare_candidate(0)
        driver.stand_duration(ctypes.c_uint64(900))
        launch(one)
    """)
    assert done.status == 0, done.err
    rows: dict[str, list[int]] = {}
    for event in done.of("driver_times"):
        rows |= event["times"]
    launched = done.of("driver_launch")
    found = {(e.get("tuning"), e.get("candidate")): rows[str(e["id"])][:2] for e in launched}
    assert found == {
        (True, 5): [2, 1300],
        (True, None): [1, 600],
        (True, 70000): [1, 700],
        (None, None): [1, 900],
    }


def test_a_kernel_of_a_replayed_graph_is_timed_by_its_name(drive: Drive, gelu: str) -> None:
    done = drive(f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        whole = graph((0, one, 3, None))
        driver.stand_instantiate(whole, ctypes.c_void_p(0x20))
        for _ in range(4): driver.stand_replay(ctypes.c_void_p(0x20))
    """)
    assert done.status == 0, done.err
    assert {key: row[:2] for key, row in times(done).items()} == {
        (gelu, (3, 1, 1), False): [4, 2000]
    }


def test_the_timeline_holds_kernels_copies_and_marks_in_their_order(
    drive: Drive, gelu: str
) -> None:
    done = drive(f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        subscriber.mark(7)
        driver.stand_copy(ctypes.c_uint64(4096))
        launch(one, (7, 2), (64, 4), stream=5)
        driver.stand_wait(ctypes.c_uint64(2000))
        launch(one, (7, 2), (64, 4), stream=6)
    """)
    assert done.status == 0, done.err
    (event,) = done.of("timeline")
    window = read_timeline((done.folder / "blobs" / event["blob"]).read_bytes())
    spans = [(s.start, s.end, s.launch, s.stream, s.bytes) for s in window.spans]
    assert spans == [
        (0, 0, MARK, 0, 7),
        (0, 500, COPY, 0, 4096),
        (500, 1000, 0, 5, 0),
        (3000, 3500, 0, 6, 0),
    ]
    assert window.length == 3500 and window.lost == 0


def test_nothing_is_timed_while_launches_are_not_watched(drive: Drive, gelu: str) -> None:
    done = drive(
        f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        launch(one, (7, 2), (64, 4))
        until(0)
        for _ in range(3): launch(one, (7, 2), (64, 4))
    """,
        PTXVIEW_DRIVER_MS="20,10,100000",
    )
    assert done.status == 0, done.err
    assert [row[0] for row in times(done).values()] == [1]


@pytest.mark.parametrize(
    ("callbacks", "activity", "counted", "timed"),
    [(2, 1, 5, 5), (2, 0, 5, 2), (1, 1, 2, 5), (0, 1, 2, 5), (1, 0, 2, 2), (0, 0, 2, 2)],
)
def test_callbacks_and_activity_are_forced_apart_and_back(
    drive: Drive, gelu: str, callbacks: int, activity: int, counted: int, timed: int
) -> None:
    done = drive(
        f"""
        {BEGIN}
        load(0x10, cubin({GELU!r}))
        one = kernel({gelu!r}, 0x10)
        driver.stand_get_function(one, ctypes.c_void_p(0x10))
        launch(one, (7, 2), (64, 4))
        library = ctypes.CDLL(os.environ["PTXVIEW_DRIVER"])
        assert library.ptxview_driver_force({callbacks}, {activity}) == 1
        for _ in range(3): launch(one, (7, 2), (64, 4))
        time.sleep(0.3)  # longer than a period: nothing turns them on or off
        assert driver.stand_enabled() == ({callbacks} == 2)
        assert library.ptxview_driver_force(2, 1) == 1
        launch(one, (7, 2), (64, 4))
    """,
        PTXVIEW_DRIVER_MS="20,10,100",
    )
    assert done.status == 0, done.err
    key = (gelu, (7, 2, 1), (64, 4, 1))
    assert done.launches()[key][0] == counted
    assert [row[0] for row in times(done).values()] == [timed]


def test_nothing_is_forced_where_nothing_is_watched(drive: Drive) -> None:
    done = drive(f"""
        subscriber.prepare()
        force = ctypes.CDLL(os.environ["PTXVIEW_DRIVER"]).ptxview_driver_force
        print(force(2, 1))
        {BEGIN}
        print(force(2, 1))
        subscriber.leave("torch.profiler")
        print(force(2, 1))
    """)
    assert done.out.split() == ["0", "1", "0"], done.err
