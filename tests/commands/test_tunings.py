"""``list --tunings``: rounds of autotuning, judged by the GPU's times of the same launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from inspector.base.model import GpuTime, Recording, Variant
from inspector.diff.variants import VariantRow
from inspector.parsers.cubin import read_cubin
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.render import tunings
from inspector.tui.variants.variants_screen import columns, recorded, recording_scope, scope_of
from inspector.tui.widgets.subject import RecordingTimes, TreeSubject
from tests.commands.test_costs import MM, round_of
from tests.helpers.ptxview import call
from tests.helpers.samples import DATA
from tests.recording.test_driver_launches import Folder

CUBIN = (DATA / "gelu_sm90.cubin").read_bytes()
CODES = tuple(CUBIN + bytes(n) for n in range(1, 4))
"""Three modules with the same kernel; its shared memory tells them apart."""
parsed = read_cubin(CUBIN)
assert parsed is not None
NAME = parsed.entries[0]


class TunedFolder(Folder):
    """A recording with rounds of autotuning of one Triton kernel."""

    def __init__(self, path: Path, candidates: int = 2) -> None:
        super().__init__(path)
        self.modules = [self.blob(code) for code in CODES[:candidates]]
        self.hashes = [f"{n}a" * 32 for n in range(candidates)]
        self.launch_count = 0
        for n, (digest, module) in enumerate(zip(self.hashes, self.modules, strict=True)):
            metadata = {"shared": 1024 * n}
            self.event("triton", name=NAME, hash=digest, files={"cubin": module}, metadata=metadata)

    def round(self, key: int, tuner_us: list[float | None], cached: bool = False) -> None:
        """One round, won by the candidate that the tuner found the fastest."""
        times = [us for us in tuner_us if us is not None]
        rows = [
            {
                "config": {"num_warps": 2**n},
                "hash": digest,
                "times_ms": [] if us is None else [us / 1000] * 3,
            }
            for n, (digest, us) in enumerate(zip(self.hashes, tuner_us, strict=True))
        ]
        winner = tuner_us.index(min(times))
        self.event(
            "autotune", name=NAME, by="triton", key=[key], configurations=rows, winner=winner,
            stopwatch="do_bench", from_cache=cached,
        )  # fmt: skip

    def timed(
        self,
        candidate: int,
        quartiles_ns: tuple[int, int, int],
        count: int = 100,
        tuning: bool = True,
        grid: int = 4,
    ) -> None:
        """Launches of a candidate, as the GPU timed them."""
        number = self.launch_count
        self.launch_count += 1
        fields: dict[str, Any] = {"tuning": True} if tuning else {}
        module = self.modules[candidate]
        self.launch(number, NAME, [count, 0, 0], module=module, grid=[grid, 1, 1], **fields)
        row = [count, quartiles_ns[1] * count, quartiles_ns[0], *quartiles_ns]
        self.event("driver_times", times={str(number): row})

    def rounds(self) -> list[Any]:
        self.opened()
        found: list[Any] = call("list", self.path, "--tunings", "--json").json["tunings"]
        return found

    def text(self) -> str:
        self.opened()
        return call("list", self.path, "--tunings").out.decode()


@pytest.fixture
def folder(tmp_path: Path) -> TunedFolder:
    return TunedFolder(tmp_path / "recording")


def variant_rows(recording: Recording) -> tuple[VariantRow, ...]:
    """The rows of the interface's table of variants."""
    reader = Reader(recording, DerivedCache(Path("/dev/null/none")))
    return recorded(reader, recording_scope(recording))


def marks(text: str) -> list[str]:
    """The marks of the candidates, in the order of the table; rows of pictures are indented."""
    lines = [line for line in text.splitlines() if not line.startswith("  ")]
    rows = [line.split("  warps")[0].split("warps")[0].strip() for line in lines]
    return [row for row in rows if set(row) and set(row) <= set("★☆≈")]


@pytest.mark.parametrize(("width", "settings"), [(60, "warps 2"), (30, "w2")])
def test_candidates_have_words_for_their_settings_where_the_table_has_room(
    folder: TunedFolder, width: int, settings: str
) -> None:
    folder.round(1, [190, 200])
    lines = [line.text.plain for line in tunings.lines(folder.opened(), width, {})]
    (row,) = [line.strip() for line in lines if "200.0" in line and "µs" not in line]
    assert row.startswith(f"{settings} ")
    (picture_row,) = [line.strip() for line in lines if "200.0 µs" in line]
    assert picture_row.startswith(f"{settings} ")


def test_a_choice_that_the_program_never_launched_says_so(folder: TunedFolder) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    rows = [line for line in folder.text().splitlines() if "1a1a1a1a" in line or "0a0a" in line]
    assert [row.endswith("not launched") for row in rows] == [True, False]
    folder.timed(0, (3400, 3500, 3600), count=23, tuning=False)
    assert "not launched" not in folder.text()


def test_a_choice_that_the_gpu_ran_slower_has_its_cost(folder: TunedFolder) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    folder.timed(0, (3400, 3500, 3600), count=23, tuning=False)
    (found,) = folder.rounds()
    assert (found["best"], found["best_by_gpu"]) == (0, 1)
    assert found["cost_of_choice_us"] == pytest.approx(1.5 * 23)
    first, second = found["candidates"]
    assert (first["us"], first["gpu_us"], first["gpu_timed"]) == (190, 3.5, 100)
    assert (second["gpu_low_us"], second["gpu_us"], second["gpu_high_us"]) == (1.9, 2.0, 2.1)
    assert [row["gpu_tied"] for row in (first, second)] == [False, True]
    text = folder.text()
    assert marks(text) == ["★", "☆"]
    assert "chosen: 3.50 µs" in text and "best candidate by GPU time: 2.00 µs" in text
    assert "× 23 launches of the run ≈ 34.5 µs" in text


def test_the_chosen_ones_time_in_the_program_counts_where_it_is_shorter(
    folder: TunedFolder,
) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    folder.timed(0, (2900, 3000, 3100), count=10, tuning=False)
    assert folder.rounds()[0]["cost_of_choice_us"] == pytest.approx(10.0)
    assert "chosen: 3.50 µs (3.00 µs in the program)" in folder.text()


def test_a_cost_is_unknown_where_the_program_runs_the_choice_as_fast_as_the_best(
    folder: TunedFolder,
) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    folder.timed(0, (2000, 2100, 2200), count=10, tuning=False)
    assert folder.rounds()[0]["cost_of_choice_us"] is None
    assert "cost unknown" in folder.text()


@pytest.mark.parametrize(
    ("chosen", "other", "count"),
    [
        ((2000, 2300, 2400), (1900, 2000, 2100), 100),
        ((704, 704, 704), (672, 672, 672), 100),
        ((3400, 3500, 3600), (1900, 2000, 2100), 5),
    ],
    ids=["quartiles overlap", "one tick of the clock apart", "few launches"],
)
def test_a_choice_within_the_noise_of_launches_is_a_tie(
    folder: TunedFolder, chosen: tuple[int, int, int], other: tuple[int, int, int], count: int
) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, chosen, count)
    folder.timed(1, other, count)
    folder.timed(0, chosen, count=23, tuning=False)
    (found,) = folder.rounds()
    assert (found["best_by_gpu"], found["cost_of_choice_us"]) == (1, None)
    assert [row["gpu_tied"] for row in found["candidates"]] == [True, True]
    text = folder.text()
    assert marks(text) == ["★☆", "☆"]
    assert "a tie within the noise of their launches" in text and "× 23" not in text


def test_a_choice_that_the_gpu_ran_fastest_costs_nothing(folder: TunedFolder) -> None:
    folder.round(1, [190, 200])
    folder.timed(0, (1900, 2000, 2100))
    folder.timed(1, (3400, 3500, 3600))
    (found,) = folder.rounds()
    assert (found["best_by_gpu"], found["cost_of_choice_us"]) == (0, 0)
    assert "chosen: 2.00 µs, the shortest GPU time" in folder.text()


def test_gpu_times_of_a_choice_from_a_cache_are_unknown(folder: TunedFolder) -> None:
    folder.round(1, [190, 200], cached=True)
    folder.timed(0, (1900, 2000, 2100), tuning=False)
    (found,) = folder.rounds()
    assert found["from_cache"] and found["best_by_gpu"] is found["cost_of_choice_us"] is None
    assert [row["gpu_us"] for row in found["candidates"]] == [None, None]
    text = folder.text()
    assert "the choice came from a cache: GPU times of its candidates are unknown" in text


def test_rounds_for_several_keys_are_distinguished_by_their_grids(folder: TunedFolder) -> None:
    for key, grid, slow in ((64, 1, 0), (128, 2, 1)):
        folder.timed(slow, (3400 * grid, 3500 * grid, 3600 * grid), grid=grid)
        folder.timed(1 - slow, (1900 * grid, 2000 * grid, 2100 * grid), grid=grid)
        folder.round(key, [190, 200])
    first, second = folder.rounds()
    assert [row["gpu_us"] for row in first["candidates"]] == [3.5, 2.0]
    assert [row["gpu_us"] for row in second["candidates"]] == [4.0, 7.0]
    assert (first["best_by_gpu"], second["best_by_gpu"]) == (1, 0)


def test_launches_of_one_grid_for_several_keys_have_no_time_of_a_round(
    folder: TunedFolder,
) -> None:
    folder.round(64, [190, 200])
    folder.round(128, [190, 200])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    for found in folder.rounds():
        assert [row["gpu_us"] for row in found["candidates"]] == [None, None]
        assert found["best_by_gpu"] is None
    assert folder.text().count("launches of several rounds are not told apart") == 2


def test_rounds_for_one_key_share_their_times(folder: TunedFolder) -> None:
    folder.round(64, [190, 200])
    folder.round(64, [210, 205])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    for found in folder.rounds():
        assert [row["gpu_us"] for row in found["candidates"]] == [3.5, 2.0]
    assert folder.text().count("GPU times are of 2 rounds together") == 2


def test_a_candidate_without_a_time_is_not_counted_among_the_timed(tmp_path: Path) -> None:
    folder = TunedFolder(tmp_path / "recording", candidates=3)
    folder.round(1, [190, 200, 210])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    assert folder.rounds()[0]["candidates"][2]["gpu_us"] is None
    assert "best candidate by GPU time of the 2 timed of 3: 2.00 µs" in folder.text()


def test_a_round_alone_is_tied_within_the_noise_of_other_kernels_rounds() -> None:
    """The same code differs more from round to round than twice in one round."""
    alone = replace(MM, id="alone", autotune=(round_of("mm", 10, 10.2),))
    code = {"f": b"1", "s": b"1"}
    assert tunings.round_rows(Recording("x", (alone,)), code)[0].noise == pytest.approx(0.02)
    twice = replace(MM, autotune=(round_of("mm_1", 10, 11), round_of("mm_2", 11.6, 11.8)))
    found = tunings.round_rows(Recording("x", (alone, twice)), code)
    assert [row.noise for row in found] == [pytest.approx(0.18, abs=0.03)] * 3


def test_candidates_that_the_gpu_tells_apart_are_not_tied_by_the_tuners_times(
    folder: TunedFolder,
) -> None:
    folder.round(64, [190, 195])
    folder.round(64, [250, 260])
    assert [row["tied"] for row in folder.rounds()[0]["candidates"]] == [False, True]
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    assert [row["tied"] for row in folder.rounds()[0]["candidates"]] == [False, False]


def test_the_table_of_variants_has_the_gpus_time_and_what_the_choice_costs(
    folder: TunedFolder,
) -> None:
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, (1900, 2000, 2100))
    folder.timed(0, (3400, 3500, 3600), count=23, tuning=False)
    folder.round(1, [190, 200])
    first, second = variant_rows(folder.opened())
    assert [(row.time_us, row.gpu_us, row.gpu_best) for row in (first, second)] == [
        (190, 3.5, False),
        (200, 2.0, True),
    ]
    assert "× 23 launches of the run ≈ 34.5 µs" in first.verdict
    shown = {column.name: column for column, _ in columns([first, second], 160, RecordingTimes(""))}
    assert [shown["winner"].cell(row) for row in (first, second)] == ["★", " ☆"]
    assert [shown["gpu"].cell(row) for row in (first, second)] == ["3.50 µs", "2.00 µs"]


def test_the_table_of_variants_has_the_gpus_times_of_each_round(folder: TunedFolder) -> None:
    for key, grid in ((64, 1), (128, 2)):
        folder.timed(0, (3400 * grid, 3500 * grid, 3600 * grid), grid=grid)
        folder.timed(1, (1900 * grid, 2000 * grid, 2100 * grid), grid=grid)
        folder.round(key, [190, 200])
    rows = variant_rows(folder.opened())
    assert [(row.gpu_us, row.gpu_best) for row in rows] == [
        (3.5, False), (2.0, True), (7.0, False), (4.0, True),
    ]  # fmt: skip
    assert all("chosen: " in row.round for row in rows)


FILL, COPY = ["fill__Scalar", "zero_"], ["copy_"]
LIBRARY_LAUNCHES: dict[str, list[tuple[list[str], int, int]]] = {
    "one kernel": [(FILL, 205, 900), (["mm_out"], 105, 2000)],
    "with what splits its sums": [
        *[(FILL, 205, 900), (COPY, 1, 5000), (["mm_out"], 105, 1500)],
        (["mm_out"], 104, 500),
    ],
    "twice the same kernel": [(FILL, 205, 900), (["mm_out"], 210, 750), (["mm_out"], 105, 500)],
    "in the middle of a window": [(FILL, 30, 900), (["mm_out"], 15, 2000)],
    "operators are unknown": [([], 205, 900), ([], 105, 2000)],
    "never launched": [(FILL, 205, 900)],
}
"""What a library's candidate launches while it is measured: operators, innermost first, launches
and ns of each, as InductorBenchmarker's rounds on an H200."""


@pytest.mark.parametrize("launches", LIBRARY_LAUNCHES)
def test_a_librarys_candidate_has_the_time_of_a_call(launches: str, folder: TunedFolder) -> None:
    """Two candidates that launch the same kernels are distinguished; Triton's has none."""
    for candidate, slower in ((1, 1), (2, 3)):
        for n, (operators, count, ns) in enumerate(LIBRARY_LAUNCHES[launches]):
            number = 10 * candidate + n
            fields = {"grid": [n + 1, 1, 1], "operators": operators, "candidate": candidate}
            folder.launch(number, NAME, [count, 0, 0], tuning=True, **fields)
            us = ns * slower
            folder.event("driver_times", times={str(number): [count, us * count, us, us, us, us]})
    rows = [
        {"config": {"choice": name}, "maker": maker, "candidate": number, "times_ms": [0.02]}
        for name, maker, number in (("mm", "ATen", 1), ("mm_2", "ATen", 2), ("t", "Triton", None))
    ]
    folder.event(
        "autotune", name="mm(8x8)", by="inductor", operation="mm", key={"sizes": "8x8"},
        configurations=rows, winner=1, tuning=3,
    )  # fmt: skip
    (found,) = folder.rounds()
    expected = None if launches in ("operators are unknown", "never launched") else 2.0
    first, second, third = found["candidates"]
    assert first["gpu_us"] == expected and third["gpu_us"] is None
    assert second["gpu_us"] == (expected and pytest.approx(3 * expected))
    assert ("best candidate by GPU time of the 2 timed of 3" in folder.text()) is bool(expected)


def gpu_time(us: float) -> GpuTime:
    return GpuTime(100, us, us - 0.1, (us - 0.1, us, us + 0.1))


@pytest.mark.parametrize(
    ("program_us", "cost_us"), [(9.0, 60.0), (4.0, 20.0), (2.0, None)], ids=str
)
def test_a_product_costs_what_the_kernel_made_from_the_choice_is_launched_for(
    program_us: float, cost_us: float | None
) -> None:
    """The kernel has more fused into it: a time longer than the candidate's is no cost."""
    tuning = round_of("mm", 10, 11)
    fast, slow = tuning.configurations
    rows = (replace(fast, gpu_time=gpu_time(8.0)), replace(slow, gpu_time=gpu_time(2.0)))
    product = replace(MM, autotune=(replace(tuning, configurations=rows),))
    launched = Variant("v", "v", "made", launches=10, gpu_time=gpu_time(program_us))
    made = replace(MM, id="made", variants=(launched,))
    (found,) = tunings.round_rows(Recording("x", (product, made)), {})
    assert found.cost_of_choice_us == (None if cost_us is None else pytest.approx(cost_us))
    again = replace(product, id="other")
    for shared in tunings.round_rows(Recording("x", (product, again, made)), {}):
        assert shared.cost_of_choice_us is None


def test_the_table_of_a_generated_kernel_has_the_candidates_of_its_round() -> None:
    tuned = replace(MM, autotune=(round_of("mm_1", 10, 11), round_of("mm_2", 13, 12)))
    launched = Variant("v", "v", "made", launches=10)
    made = replace(MM, id="made", name="triton_tem_fused_mm_0", variants=(launched,))
    recording = Recording("x", (tuned, made))
    reader = Reader(recording, DerivedCache(Path("/dev/null/none")))
    rows = recorded(reader, scope_of("made", [TreeSubject(made, launched)]))
    assert rows[0].variant is launched and not rows[0].round
    assert [row.time_us for row in rows[1:]] == [10, 11, 12, 13]
    assert rows[1].winner and rows[1].round.startswith("mm · round 1 of 2 · for mm_1")


def test_the_lines_of_a_round_know_the_kernels_that_it_was_for() -> None:
    tuned = replace(MM, autotune=(round_of("mm_1", 10, 11),))
    made = replace(MM, id="made", variants=(Variant("v", "v", "made", launches=10),))
    heading, head, fast, slow, *_ = tunings.lines(Recording("x", (tuned, made)), 120, {})
    assert [line.tuned for line in (heading, head, fast, slow)] == [("mm",), (), ("made",), ()]


@pytest.mark.parametrize(
    ("quartiles_ns", "words"),
    [
        ((1900, 2000, 2100), "3.50 → 2.00 µs, 43% less, more than their noise"),
        ((3450, 3550, 3650), "3.50 → 3.55 µs, 1% more, a tie within their noise"),
    ],
)
def test_a_difference_has_the_gpus_times_instead_of_the_stopwatchs(
    quartiles_ns: tuple[int, int, int], words: str, folder: TunedFolder
) -> None:
    folder.round(64, [190, 191])
    folder.round(64, [191, 190])
    folder.timed(0, (3400, 3500, 3600))
    folder.timed(1, quartiles_ns)
    folder.opened()
    a, b = (f"{folder.path}::{digest[:8]}" for digest in folder.hashes)
    text = " ".join(call("diff", a, b).out.decode().split())
    assert text.count(f"GPU time of the tuner's launches: {words}") == 1
    assert "tuner's time in round" not in text
    (gpu, _) = (times["gpu"] for times in call("diff", a, b, "--json").json["rounds"])
    assert (gpu["a"], gpu["b"]) == (3.5, quartiles_ns[1] / 1000)
