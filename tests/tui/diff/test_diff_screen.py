"""The screen of differences and the table of variants: every command, places, folds, failures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from inspector.base.errors import Unreadable
from inspector.base.model import (
    Configuration,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Tuning,
    Variant,
)
from inspector.commands.common import open_reader
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.variants import VariantRow
from inspector.parsers.line import Listing
from inspector.reader.reader import Reader
from inspector.reader.stages import StageReader
from inspector.recording.layout import DerivedCache
from inspector.tui.app.app import PtxviewApp
from inspector.tui.diff.diff_screen import DiffScreen
from inspector.tui.diff.diff_view import DiffPlace, moved_spans
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.variants.variants_screen import TUNED, VariantsScreen, ordered
from inspector.tui.widgets.subject import TreeSubject
from tests.helpers.ptxview import SAMPLE
from tests.helpers.sample import Bytes, rest, settle, text_of, variant
from tests.helpers.shared_app import SharedApp, started
from tests.tui.main.test_looks import Compare

Ui = Pilot[None]
WIDE = (120, 40)
"""Columns and rows with two listings beside each other."""

HEAD = """\
.version 8.7
.target sm_90a
.address_size 64

.visible .entry scale(
	.param .u64 scale_param_0,
	.param .u32 scale_param_1
)
.reqntid 128
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<20>;
	.reg .f32 	%f<90>;
	.reg .b64 	%rd<4>;

	ld.param.u64 	%rd1, [scale_param_0];
	ld.param.u32 	%r1, [scale_param_1];
	mov.u32 	%r2, %tid.x;
"""
BODY = "".join(f"\tmul.f32 \t%f{n + 1}, %f{n}, %f{n};\n" for n in range(30))
TAIL = """\
	mad.wide.s32 	%rd2, %r2, 4, %rd1;
	st.global.f32 	[%rd2], %f31;
	ret;

}
"""
FIRST = HEAD + "\tshl.b32 \t%r3, %r2, 2;\n" + BODY + "\tadd.f32 \t%f31, %f30, 0f3F800000;\n" + TAIL
SECOND = (
    HEAD.replace("%r2,", "%r7,")
    + "\tshl.b32 \t%r3, %r7, 3;\n"
    + BODY
    + "\tadd.f32 \t%f31, %f30, 0f3F800000;\n\tmax.f32 \t%f31, %f31, %f2;\n"
    + TAIL.replace("%r2,", "%r7,")
)
"""One register is called otherwise, one operand is another, one instruction is new."""


def held(ident: str, ptx: str, **more: object) -> Variant:
    files = {Stage.PTX: StageFile(Bytes(ptx.encode()), "/home/ada/scale.ptx")}
    return variant("scale", ident, stages=files, target="sm_90a", **more)


def made(*variants: Variant, **more: object) -> Reader:
    """A reader of one kernel with these variants."""
    kernel = Kernel("k1", "scale", "scale", Origin.TRITON, variants, **more)  # type: ignore[arg-type]
    recording = Recording("/home/ada/scale.ptxview", (kernel,), (), command=("python", "scale.py"))
    return Reader(recording, DerivedCache(Path("/dev/null/none")))


def two(a: str = FIRST, b: str = SECOND) -> Reader:
    return made(
        held(
            "aaaa1111",
            a,
            config={"BLOCK": 1024, "num_warps": 4},
            recorded_resources=Resources(registers=22, spill_store_bytes=0, spill_load_bytes=0),
        ),
        held(
            "bbbb2222",
            b,
            config={"BLOCK": 1024, "num_warps": 8},
            recorded_resources=Resources(registers=30, spill_store_bytes=16, spill_load_bytes=24),
        ),
    )


two_app = SharedApp(cache(two))


@cache
def lecture() -> Reader:
    return open_reader(str(SAMPLE))


def subject(reads: Reader, ident: str) -> TreeSubject:
    return next(TreeSubject(k, v) for k, v in reads.recording.variants() if v.id == ident)


@asynccontextmanager
async def diff(
    *keys: str,
    reads: Reader | None = None,
    pair: tuple[str, str] = ("aaaa1111", "bbbb2222"),
    size: tuple[int, int] = WIDE,
    stage: Stage | None = None,
) -> AsyncIterator[tuple[Ui, DiffScreen]]:
    """The screen of differences; ``keys`` are pressed one by one."""
    reads = reads or two()
    async with started(size=size, app=two_app) as (ui, _):
        screen = DiffScreen(reads, subject(reads, pair[0]), subject(reads, pair[1]), stage)
        ui.app.push_screen(screen)
        await rest(ui)
        for key in keys:
            await rest(ui, key)
        yield ui, screen


def lines(ui: Ui) -> list[str]:
    return text_of(ui).split("\n")


def line_of(text: str, words: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if words in line)


CHANGED = line_of(FIRST, "shl.b32")
ADDED = line_of(SECOND, "max.f32")


async def test_only_differences_are_marked_and_underlined() -> None:
    async with diff() as (ui, screen):
        assert len(screen.view.shown.changes) == 2
        text = text_of(ui)
        assert "2 changes" in text
        row = next(line for line in lines(ui) if "shl.b32" in line)
        assert re.search(r"▸ *\d+ ~ +shl.b32 +%r3, %r2, 2;.*│ *\d+ ~ +shl.b32 +%r3, %r7, 3;", row)
        assert not [line for line in lines(ui) if "mov.u32" in line and "~" in line]
        assert re.search(r"… \d+ equal lines", text)
        strips = map(screen.view.render_line, range(screen.view.size.height))
        strip = next(strip for strip in strips if "shl.b32" in strip.text)
        loud = [s.text for s in strip if s.style is not None and s.style.underline]
        assert loud == ["2", "3"]


async def test_explanation_and_lost_hints_are_above_the_listings() -> None:
    async with diff(reads=lecture(), pair=("780c582c", "9c81a042")) as (ui, _):
        text = text_of(ui)
        assert "num_warps 4 → 8: half the elements a thread (8 → 4)" in text
        assert "registers 18 → 14 (-4)" in text
    async with diff(reads=lecture(), pair=("a4fe74f3", "9c81a042")) as (ui, _):
        assert "◆ hint lost: narrow-access" in text_of(ui)


async def test_a_narrow_terminal_shows_one_column_and_keeps_the_line() -> None:
    async with diff("n") as (ui, screen):
        assert screen.view.place == DiffPlace(Stage.PTX, None, ADDED)
        await ui.resize_terminal(80, 24)
        await rest(ui)
        assert not screen.view.side_by_side
        assert screen.view.place == DiffPlace(Stage.PTX, None, ADDED)
        assert any("▸" in row and "max.f32" in row for row in lines(ui))
        await ui.press("left_square_bracket")
        text = lines(ui)
        at = next(i for i, row in enumerate(text) if "-~" in row)
        assert f"{CHANGED}" in text[at] and "%r2, 2;" in text[at]
        assert "+~" in text[at + 1] and "%r7, 3;" in text[at + 1]


async def test_moved_lines_say_where() -> None:
    body = BODY.split("\n")
    sum_ = "\tadd.s32 \t%r9, %r1, 5;"
    tail = TAIL.replace("\tret;", "\tst.global.b32 \t[%rd2+4], %r9;\n\tret;")
    a = HEAD + "\n".join([*body[:3], sum_, *body[3:]]) + tail
    b = HEAD + "\n".join([*body[:20], sum_, *body[20:]]) + tail
    async with diff("<diff.unfold.all>", reads=two(a, b)) as (ui, screen):
        here, there = line_of(a, "add.s32"), line_of(b, "add.s32")
        assert screen.view.row == BesideRow(Sign.MOVED_AWAY, here, None, there)
        assert f"moved to b {there}" in text_of(ui)
        rows = [row for row in lines(ui) if "add.s32" in row]
        assert re.search(rf"▸ *{here} » +add.s32 .*→ {there} *│", rows[0])
        assert re.search(rf"│ *{there} « +add.s32 .*← {here}", rows[1])


SEARCH = ("slash", *"mul", "full_stop", "asterisk", *"f10", "vertical_line", *"max", "enter")
"""Two lines that use %f10, which are folded away, and the one that only b has."""


def place_of(screen: DiffScreen) -> str:
    place, held = screen.view.place, screen.summary.comparison
    assert place is not None and place.b is not None and held is not None
    return held.listings[1].lines[place.b - 1].text.split()[0]


async def test_key_diff_search() -> None:
    async with diff("g", *SEARCH) as (ui, screen):
        text = text_of(ui)
        assert "match 1 of 3" in text and "n next match" in text
        assert place_of(screen) == "mul.f32" and "%f10, %f9, %f9" in text
        await ui.press("v")  # in one column the same lines are found
        assert len(screen.view.matches) == 3
        await rest(ui, "slash", *"nothing like it".replace(" ", "_"), "enter")
        assert "nothing matches “nothing_like_it”" in text_of(ui)
        await rest(ui, "slash", "left_parenthesis", "enter")
        assert "“(” is not a regular expression" in text_of(ui)


async def test_enter_minus_and_a_click_fold_and_unfold() -> None:
    async with diff("j", "j", "j", "j", size=(200, 60)) as (ui, _):
        folded = [row for row in lines(ui) if "equal lines" in row]
        assert any("▸" in row for row in folded)
        await ui.press("enter")
        assert len([row for row in lines(ui) if "equal lines" in row]) == len(folded) - 1
        await ui.press("j", "minus")
        assert [row for row in lines(ui) if "equal lines" in row] == folded
        at = next(y for y, row in enumerate(lines(ui)) if "equal lines" in row)
        await ui.click(offset=(20, at))
        assert text_of(ui).count("equal lines") == len(folded) - 1


KEYS: tuple[tuple[str, str, str], ...] = (
    ("<diff.unfold.all>", "mul.f32", "equal lines"),
    ("<diff.unfold.all>", "equal lines", ""),
    ("e", "", "num_warps 4 → 8"),
    ("e", "num_warps 4 → 8", ""),
    ("v", "+~", ""),
    ("v", "", "+~"),
    ("<diff.exact>", "exact · ", ""),
    ("<diff.exact>", "", "exact · "),
    ("i", "spilled bytes stored", ""),
    ("escape", "", "spilled bytes stored         0"),
    ("slash", "a regular expression", ""),
    ("m u l enter", "match 1 of ", ""),
    ("escape", "of 2 changes above", "match 1 of"),
)
"""Keys, one after the other; what is seen then, and what is not."""


async def test_keys_of_a_diff() -> None:
    async with diff() as (ui, screen):
        for keys, seen, gone in KEYS:
            await rest(ui, *keys.split())
            text = text_of(ui)
            assert seen in text and (not gone or gone not in text), keys
        before = screen.view.cursor
        await ui.press("slash", *"ret", "escape")  # given up: the cursor is where it was
        await rest(ui)
        assert screen.view.cursor == before
        await ui.press("escape")
        assert isinstance(ui.app.screen, MainScreen)


@pytest.mark.parametrize(
    "error",
    [Unreadable("It is damaged.", "Compile it again."), ZeroDivisionError("division by zero")],
)
async def test_what_fails_in_the_thread_is_a_notice(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(self: StageReader, variant: Variant, stage: Stage) -> Listing:
        raise error

    monkeypatch.setattr(StageReader, "listing", listing)
    async with diff() as (ui, screen):
        assert str(error).split(".")[0] in text_of(ui)
        assert screen.view.shown.changes == ()
        await rest(ui, "n", "enter", "<diff.unfold.all>", "v", "x", "i", "s")
        assert ui.app.screen is screen
        await ui.press("escape")
        assert isinstance(ui.app.screen, MainScreen)


@pytest.mark.parametrize(
    ("raw", "shown", "at", "expected"),
    [
        ("\tadd 1", "    add 1", 5, 8),
        ("\x1badd 1", "␛add 1", 5, 5),
        ("a\udcffb", "a‹FF›b", 2, 5),
        ("        /*0010*/                   MOV R1 ;", " /*0010*/       MOV R1 ;", 39, 20),
    ],
)
def test_marks_are_at_the_characters_as_shown(raw: str, shown: str, at: int, expected: int) -> None:
    ((first, last),) = moved_spans(raw, shown, [(at, at + 1)])
    assert (first, last) == (expected, expected + 1)
    assert raw[at] == shown[first]


def tuned() -> Reader:
    """Three variants that a tuner has measured, and one configuration that it did not compile."""
    configs = ((1024, 4, 9.5, False), (2048, 8, 7.25, True), (512, 16, 12.0, False))
    none = Resources(spill_load_bytes=0, static_shared_bytes=0)
    variants = []
    for n, (block, warps, time, won) in enumerate(configs):
        known = replace(
            none, registers=20 + 10 * n, spill_store_bytes=8 * n, dynamic_shared_bytes=1024 * n
        )
        config = {"BLOCK": block, "num_warps": warps}
        tuner = {"time_us": time, "winner": won}
        variants.append(
            held(
                f"{n}" * 4 + "0000", FIRST, config=config, recorded_resources=known, autotune=tuner
            )
        )
    pruned = Configuration({"BLOCK": 8192, "num_warps": 32}, reason="pruned: too large")
    return made(*variants, autotune=(Tuning("triton", None, (pruned,)),))


tuned_app = SharedApp(cache(tuned))


@asynccontextmanager
async def table(
    *keys: str, size: tuple[int, int] = WIDE, reads: Reader | None = None
) -> AsyncIterator[tuple[Ui, VariantsScreen]]:
    app = tuned_app if reads is None else PtxviewApp(reads)
    async with started(size=size, app=app) as (ui, _):
        await rest(ui, "V")
        screen = ui.app.screen
        assert isinstance(screen, VariantsScreen)
        for key in keys:
            await rest(ui, key)
        yield ui, screen


def column(screen: VariantsScreen) -> list[str]:
    return [row.variant.id[:4] if row.variant else "–" for row in screen.table.rows]


async def test_the_table_has_every_variant_and_what_was_not_compiled() -> None:
    async with table() as (ui, screen):
        text = text_of(ui)
        assert column(screen) == ["0000", "1111", "2222", "–"]
        assert "3 variants · 1 not compiled" in text
        row = next(line for line in lines(ui) if "11110000" in line)
        assert re.search(r"★ +2048 +8 +7.25 µs +30 +8/0 B ⚠ +1 KiB +\d+ % +\d+", row)
        row = next(line for line in lines(ui) if "not compiled" in line and "8192" in line)
        assert "pruned: too large" in row


async def test_local_memory_is_in_the_table_and_in_the_header() -> None:
    reads = made(
        *(
            replace(variant, recorded_resources=replace(variant.recorded_resources, stack_bytes=32))
            for variant in tuned().recording.kernels[0].variants
        )
    )
    async with table(reads=reads) as (ui, screen):
        assert "stack" in lines(ui)[1]
        assert re.search(r" 32 ", next(line for line in lines(ui) if "00000000" in line))
        screen.table.sort("spills")
        assert column(screen)[0] == "2222"  # the most first
        await rest(ui, "escape")
        assert "stack 32 B" in lines(ui)[1]


async def test_a_time_that_is_not_read_yet_is_no_dash() -> None:
    async with table(reads=made(*tuned().recording.kernels[0].variants[:1])) as (_, screen):
        row = screen.table.rows[0]
        times = screen.times
        assert times.text(row.kernel, row.variant) == "–"
        times.are_read = False
        assert times.text(row.kernel, row.variant) == "…"


async def test_each_round_of_tuning_has_its_times_its_choice_and_its_library() -> None:
    fast, slow = tuned().recording.kernels[0].variants[:2]

    def round_of(first: float, other: float, library: float) -> Tuning:
        tried = (
            Configuration(fast.config, fast.id, first),
            Configuration(slow.config, slow.id, other),
            Configuration({"choice": "mm"}, None, library, maker="ATen"),
        )
        best = min(range(3), key=lambda n: tried[n].time_us or 0)
        return Tuning("inductor", None, tried, best=best, operation="mm")

    reads = made(
        *(replace(one, launches=0, benchmarks=212) for one in (fast, slow)),
        autotune=(round_of(6, 7, 5), round_of(9, 8, 30)),
    )
    async with table(reads=reads) as (ui, screen):
        assert column(screen) == ["–", "–", "0000", "1111", "–", "1111", "0000", "–"]
        text = text_of(ui)
        assert ["ATen mm" in line for line in text.split("\n") if "★ " in line][1:-1] == [
            True,
            False,
        ]
        assert "round 2 of 2" in text and "benchmarked 212" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("winner", ["1111", "0000", "2222", "–"]),
        ("regs", ["0000", "1111", "2222", "–"]),
    ],
)
async def test_a_click_on_a_head_sorts(name: str, expected: list[str]) -> None:
    async with table() as (ui, screen):
        head = lines(ui)[1]
        await ui.click(offset=(head.index("★" if name == "winner" else name), 1))
        assert column(screen) == expected
        assert f"by {'registers' if name == 'regs' else name}" in text_of(ui)


async def test_sort_keys_choose_the_column_and_the_direction() -> None:
    async with table("o", "o", "o") as (ui, screen):
        assert column(screen) == ["2222", "0000", "1111", "–"]
        assert "by BLOCK" in text_of(ui) and "BLOCK▲" in lines(ui)[1]
        await ui.press("r")
        assert column(screen) == ["–", "1111", "0000", "2222"]
        assert "BLOCK▼" in lines(ui)[1]
        await rest(ui, *["<variants.sort.previous>"] * 4)
        assert "by instructions" in text_of(ui)


async def test_variants_are_marked_and_compared() -> None:
    async with table("D") as (ui, screen):
        assert ui.app.screen is screen
        await ui.press("g", "d", "j", "d")
        assert [one.key[1] for one in screen.table.marked] == ["00000000", "11110000"]
        assert any(re.match(r" ?A +00000000", row) for row in lines(ui))
        assert any(re.match(r"▸B +11110000", row) for row in lines(ui))
        await ui.press("d")
        assert len(screen.table.marked) == 1
        await rest(ui, "D")
        found = ui.app.screen
        assert isinstance(found, DiffScreen)
        assert (found.request.a.key[1], found.request.b.key[1]) == ("00000000", "11110000")
        await ui.press("escape")
        assert ui.app.screen is screen
        await ui.press("escape")
        main = ui.app.screen
        assert isinstance(main, MainScreen)
        assert [one.key[:2] for one in main.marked] == [("k1", "00000000")]
        await rest(ui, "V")
        assert "Marked: A 00000000" in text_of(ui)


async def test_the_filter_narrows_the_table_and_escape_clears_it() -> None:
    async with table("slash", *"2048") as (ui, screen):
        assert column(screen) == ["1111"]
        assert "1 of 3 variants" in text_of(ui)
        await ui.press("enter", "d")
        assert [one.key[1][:4] for one in screen.table.marked] == ["1111"]
        await ui.press("escape")
        assert ui.app.screen is screen and len(screen.table.rows) == 4
        await ui.press("escape")
        assert ui.app.screen is not screen


@pytest.mark.parametrize("width", [50, 60, 80, 100])
async def test_a_narrow_table_shows_whole_columns(width: int) -> None:
    own = tuned()
    other = replace(own.recording.kernels[0], id="k2", name="another_kernel", autotune=())
    recording = replace(own.recording, kernels=(*own.recording.kernels, other))
    both = Reader(recording, DerivedCache(Path("/dev/null/none")))
    async with table("a", size=(width, 24), reads=both) as (_, screen):
        shown = screen.table.columns
        assert len(shown) >= 3
        assert 4 + sum(size + 2 for _, size in shown) - 2 <= screen.table.size.width


async def test_key_variants_wider() -> None:
    own = tuned()
    other = replace(own.recording.kernels[0], id="k2", name="other", autotune=())
    recording = replace(own.recording, kernels=(*own.recording.kernels, other))
    both = Reader(recording, DerivedCache(Path("/dev/null/none")))
    async with table("a", reads=both) as (ui, screen):
        assert [row.kernel.name for row in screen.table.rows if row.variant] == [
            *["scale"] * 3,
            *["other"] * 3,
        ]
        assert "all of 2 kernels" in text_of(ui)
        await ui.press("a")
        assert "every variant of the recording" in text_of(ui)


def test_unknown_values_sort_last_in_both_directions() -> None:
    kernel = Kernel("k", "k", "k", Origin.TRITON, ())
    times = (3.0, None, 1.0, 2.0, 2.0)
    rows = [VariantRow(kernel, None, {"n": n}, time_us=t) for n, t in enumerate(times)]
    assert [r.config["n"] for r in ordered(rows, TUNED, False)] == [2, 3, 4, 0, 1]
    assert [r.config["n"] for r in ordered(rows, TUNED, True)] == [0, 3, 4, 2, 1]


@pytest.mark.parametrize("size", [(120, 40)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_how_a_diff_looks(snap_compare: Compare, size: tuple[int, int]) -> None:
    reads = two()

    async def run(ui: Ui) -> None:
        ui.app.animation_level = "none"
        await settle(ui)
        pair = [TreeSubject(k, v) for k, v in reads.recording.variants()][:2]
        ui.app.push_screen(DiffScreen(reads, pair[0], pair[1]))
        await rest(ui)

    assert snap_compare(PtxviewApp(reads), terminal_size=size, run_before=run)
