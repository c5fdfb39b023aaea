"""Taking times from the interface: a made-up device, a real recording, every command, the looks."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from inspector.base.errors import Stopped
from inspector.commands.common import open_reader
from inspector.measure.time import take as running
from inspector.measure.time import take as time_take
from inspector.measure.time.results import Session
from inspector.recording.layout import recordings_folder, store_record, stored_records
from inspector.system import toolchain
from inspector.system.process import Finished
from inspector.tui.app.app import PtxviewApp
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.widgets import subject as times
from inspector.tui.work.work_screen import TimingScreen, TimingState
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import rest, settle, text_of
from tests.helpers.shared_app import started
from tests.tui.main.test_looks import Compare

SQUARE, GELU = "a4fe74f3", "4848992d"
ROW = {"call": 0, "stopwatch": "cupti", "cache": "cold", "samples": 60}
SQUARE_ROW: dict[str, Any] = {
    "kernel": "square_kernel",
    "variant": SQUARE,
    "inputs": "float32 1823×781, 1823×781",
}
SQUARE_ROW |= {"median_us": 4.03, "low_us": 4.02, "high_us": 4.05}
SQUARE_ROW |= {"gb_per_s": 2826.4, "percent_of_peak": 66.2}
SOFTMAX_ROW = {"kernel": "softmax_kernel", "variant": "ed6dc2ce", "median_us": 5.5}
OLD: dict[str, Any] = {
    "taken": "2026-01-01T12:00:00+00:00",
    "device": {"name": "NVIDIA H200"},
    "rows": [{**ROW, **SQUARE_ROW}, {**ROW, **SOFTMAX_ROW}],
}

Ui = Pilot[None]


@dataclass
class Device:
    """A made-up one: ``does`` is what a child does with its job, before it hears of the end."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    waits: bool = False
    status: int = 0
    broken: str = ""

    def cancellable_child(
        self, stop: threading.Event, tell: Callable[[int], None]
    ) -> running.Child:
        """In place of the real one: 4 µs by CUPTI, ten times that by any other stopwatch."""

        def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
            job = json.loads(Path(argv[-2]).read_text())
            self.jobs.append(job)
            if self.status:
                with Path(argv[-1]).open("w") as out:
                    print(json.dumps({"begin": job["launches"][0]["n"]}), file=out)
                return Finished(self.status, b"", self.broken.encode())
            while self.waits:
                tell(1)
                self.held.set()
                if stop.wait(0.01):
                    self.ended.set()
                    raise Stopped("it was stopped before its end")
            device = {"name": "NVIDIA H200", "major": 9, "minor": 0, "torch": "2.11.0"}
            said: list[dict[str, Any]] = [{"device": device}]
            for watch in job["stopwatches"]:
                one = {"stopwatch": watch, "cache": job["cache"], "clocks": CLOCKS}
                said.append({"copy": {**one, "samples": [500.0] * 60, "bytes": 2_000_000_000}})
                for told in job["launches"]:
                    us = 4.0 if watch == "cupti" else 40.0
                    said += [
                        {"begin": told["n"]},
                        {**one, "n": told["n"], "samples": [us] * 60},
                        {"end": told["n"]},
                    ]
            Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in said))
            return Finished(0, b"", b"")

        return child


CLOCKS = {"low_mhz": 1200, "high_mhz": 1980, "most_mhz": 1980}


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    later = datetime.datetime(2026, 1, 4, 13, tzinfo=datetime.UTC)
    monkeypatch.setattr(times, "now", lambda: later)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(running, "cancellable_child", made.cancellable_child)
    monkeypatch.setattr(running, "interpreter", lambda *_: "/opt/python")
    return made


@pytest.fixture
def own() -> Path:
    recordings_folder().mkdir(parents=True)
    return Path(shutil.copy(SAMPLE, recordings_folder() / "lecture.ptxview"))


def app_of(path: Path) -> PtxviewApp:
    return PtxviewApp(open_reader(str(path)))


def go(main: MainScreen, variant: str = SQUARE) -> None:
    """To the row of a variant, which is beneath its kernel's."""
    at = [i for i, row in enumerate(main.kernels.rows) if row.subject.key[1] == variant]
    main.kernels.go(at[-1])


@asynccontextmanager
async def timing(
    path: Path,
    *keys: str,
    variant: str = SQUARE,
    size: tuple[int, int] = (120, 40),
    app: PtxviewApp | None = None,
) -> AsyncIterator[tuple[Ui, TimingScreen]]:
    """The screen of times, opened with its key on a variant; then ``keys``, each to its end."""
    app = app or app_of(path)
    async with started(size=size, app=app) as (ui, main):
        go(main, variant)
        await settle(ui)
        await rest(ui, "t")
        screen = app.screen
        assert isinstance(screen, TimingScreen)
        for key in keys:
            await rest(ui, key)
        yield ui, screen


async def test_ones_own_is_timed_at_once_and_the_times_are_kept(own: Path, device: Device) -> None:
    async with timing(own, size=(200, 60)) as (ui, screen):
        text = text_of(ui)
        assert "1 launch to time" in text and "grid 1823×1×1" in text
        assert "float32 1823×781" in text and "128 threads a block" in text
        row = next(line for line in text.split("\n") if "4.00…4.00" in line)
        # 1823 × 781 floats read and written in 4 µs, of a copy's 4000 GB/s.
        assert SQUARE in row and row.split("4.00…4.00")[0].split()[-1] == "4.00"
        assert row.split("4.00…4.00")[1].split()[0] == "60"
        assert "2,848" in row and "71 %" in row and "float32 1823×781" in row
        assert "cupti: the SM clock moved between 1200 and 1980 MHz" in text
        assert "cold: clean cold L2" in text
        assert screen.state is TimingState.IDLE
        (session,) = stored_records(own)
        rows = session["rows"]
        assert isinstance(rows, list) and rows[0]["median_us"] == 4.0
        await settle(ui, "escape")
        text = text_of(ui)
        assert "measured" in text  # the line of the variant
        line = next(r for r in text.split("\n") if r.startswith("›"))
        assert "4.00 µs" in line  # its row in the tree
    assert len(device.jobs) == 1


async def test_foreign_code_runs_only_after_a_yes(recording: Path, device: Device) -> None:
    async with timing(recording, "n") as (ui, screen):
        assert "Not trusted, so not run." in text_of(ui)
        await rest(ui, "t")
        assert screen.state is TimingState.ASKING and device.jobs == []
        text = text_of(ui)
        assert "This runs the code of a recording that is not yours" in text
        assert "/opt/python" in text
        await ui.press("t", "a", "enter")  # only y is a yes
        assert device.jobs == [] and screen.state is TimingState.ASKING
        await rest(ui, "y")
        assert "Measured just now" in text_of(ui)
        await rest(ui, "escape", "t")
        assert len(device.jobs) == 2  # the answer holds until the interface ends
        assert len(stored_records(recording)) == 2


async def test_without_a_gpu_it_says_so_in_one_sentence_and_shows_what_was_taken_before(
    recording: Path,
) -> None:
    store_record(recording, OLD)
    async with timing(recording) as (ui, _):
        text = text_of(ui)
        assert "✗ timing needs an NVIDIA GPU; this machine has none" in text
        assert "1 launch to time" in text
        assert "3 days ago" in text and "4.02…4.05" in text
        assert "5.50" not in text  # another kernel's
        await ui.press("escape")
        assert isinstance(ui.app.screen, MainScreen)


@pytest.mark.nightly
async def test_escape_ends_the_child_and_the_interface_goes_on(own: Path, device: Device) -> None:
    device.waits = True
    app = app_of(own)
    async with started(size=(120, 40), app=app) as (ui, main):
        go(main)
        await settle(ui)
        await ui.press("t")
        while not device.held.is_set():
            await ui.pause(0.01)
        await ui.pause()
        screen = app.screen
        assert isinstance(screen, TimingScreen) and screen.state is TimingState.RUNNING
        assert "They run now" in text_of(ui) and "Esc stops it" in text_of(ui)
        await rest(ui, "escape")
        assert device.ended.is_set() and app.screen is screen
        assert "it was stopped before its end" in text_of(ui)
        assert stored_records(own) == []
        await ui.press("escape")
        assert len(app.screen_stack) == 1


@pytest.mark.usefixtures("no_kept_estimates")
async def test_the_tree_the_card_and_the_table_show_measured_times(recording: Path) -> None:
    store_record(recording, OLD)
    app = app_of(recording)
    async with started(size=(200, 60), app=app) as (ui, main):
        go(main)
        await settle(ui)
        assert "4.03 µs measured 3 days ago" in text_of(ui)
        while main.kernels.order.value != "time":
            await ui.press("o")
        await settle(ui)
        tree = "\n".join(line[: main.kernels.size.width] for line in text_of(ui).split("\n"))
        times = re.findall(r"([≈≥] )?([\d.]+) µs ", tree)
        assert [us for mark, us in times if not mark] == ["5.50", "4.03"]
        assert all(mark for mark, us in times if us not in ("5.50", "4.03"))
        kernels = [float(us) for _, us in times]
        assert kernels[0] == max(kernels)  # the costliest first
        assert "–" in tree
        await settle(ui, "i")
        assert "4.03 µs (95 %: 4.02…4.05) by cupti, cold L2, 3 days ago" in text_of(ui)
        await ui.press("escape", "V")
        await ui.pause()
        row = next(line for line in text_of(ui).split("\n") if SQUARE in line)
        assert "4.03 µs" in row
        assert "Measured 3 days ago, cold L2." in text_of(ui)
        await ui.press("escape")
        at = next(i for i, row in enumerate(main.kernels.rows) if row.subject.key[1] == GELU)
        main.kernels.go(at)
        await settle(ui)
        await settle(ui, "i")
        assert "– not measured; t takes the time" in text_of(ui)


async def test_without_a_gpu_the_time_is_estimated_and_kept(recording: Path) -> None:
    async with timing(recording, size=(120, 40)) as (ui, screen):
        assert "e estimates the time without a GPU" in text_of(ui)
        await rest(ui, "e")
        text = text_of(ui)
        assert "Estimated just now" in text and "needs an NVIDIA GPU" not in text
        assert screen.state is TimingState.IDLE
        await settle(ui, "escape")
        assert re.search(r"≈ [\d.]+ µs", text_of(ui).split("\n")[1])


async def test_an_estimate_is_of_the_l2_that_is_chosen(recording: Path) -> None:
    async with timing(recording, size=(120, 40)) as (ui, screen):
        await rest(ui, "c", "e")
        assert screen.session is not None
        assert {row.cache for row in screen.session.rows} == {"hot"}
        assert "hot: hot L2" in text_of(ui) and "cupti · hot L2" in text_of(ui)
        await rest(ui, "c", "e")
        assert "An estimate is of a cold or a hot L2" in text_of(ui)


async def test_a_simulated_block_is_drawn_over_time(recording: Path) -> None:
    async with timing(recording, size=(120, 40)) as (ui, screen):
        await rest(ui, "e")
        text = text_of(ui)
        assert "What holds a block up?" in text and "The path without slack: " in text
        assert re.search(r"warps? \d.* [ambPc·]{16}", text)
        assert screen.state is TimingState.IDLE


async def test_stopwatches_and_cache_states_are_chosen_by_keys(own: Path, device: Device) -> None:
    async with timing(own, "a", size=(120, 60)) as (ui, screen):
        text = " ".join(text_of(ui).split())
        assert "Median µs of the same launch by each stopwatch" in text
        assert "event a pair of CUDA events around one launch on an idle device" in text
        assert "cudagraph Triton's do_bench_cudagraph: launches on end in a graph" in text
        await rest(ui, "c", "t")
        assert [(job["stopwatches"], job["cache"]) for job in device.jobs] == [
            (["cupti"], "cold"),
            (["cupti", "event", "do_bench", "cudagraph"], "cold"),
            (["cupti"], "hot"),
        ]
        assert "cupti · hot L2" in text_of(ui)
        assert len(screen.past) == 2 and "Taken before" in text_of(ui)
        await ui.press("c", "c")
        assert "cupti · cold L2" in text_of(ui)
        await ui.press("q")
        assert isinstance(ui.app.screen, MainScreen)


TAKE = time_take.take


@pytest.mark.parametrize("size", [(120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_how_times_look(
    snap_compare: Compare,
    own: Path,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
) -> None:
    store_record(own, OLD)

    def take(*args: Any) -> Session:
        return replace(TAKE(*args), taken="2026-01-04T12:00:00+00:00")

    monkeypatch.setattr(time_take, "take", take)

    async def run(ui: Ui) -> None:
        ui.app.animation_level = "none"
        main = await settle(ui)
        go(main)
        await settle(ui)
        for key in ("t", "a"):
            await rest(ui, key)

    assert snap_compare(app_of(own), terminal_size=size, run_before=run)
