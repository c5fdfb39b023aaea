"""Figures, names, rows, stages, colours: what the widgets draw, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.color import Color

from inspector.base.model import Location, Resources, Stage
from inspector.tui.code.highlight import place
from inspector.tui.main.bars import banner, counts, device_name, recording_name
from inspector.tui.panes.pane import ListingRequest, LoadedListing, load
from inspector.tui.tree.rows import TreeKind, rows, whole_tree
from inspector.tui.widgets.figures import spilled, spills
from inspector.tui.widgets.notice import Notice, plain, squeezed, visible
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.theme import DARK, LIGHT, TOKENS
from tests.helpers.contrast import contrast
from tests.helpers.sample import reader, recording, target

# Figures


@pytest.mark.parametrize(
    ("store", "load_", "text"),
    [
        (None, None, "–"), (0, 0, "0"), (16, 24, "16/24 B ⚠"),
        (None, 24, "–/24 B ⚠"),
    ],
)  # fmt: skip
def test_spills(store: int | None, load_: int | None, text: str) -> None:
    found = Resources(spill_store_bytes=store, spill_load_bytes=load_)
    assert spills(found) == text
    assert spilled(found) == ("⚠" in text)


# Text that is data


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\tmov", "    mov"),
        ("a\tb", "a   b"),
        ("\x1b[31mred", "␛[31mred"),
        ("bell\x07", "bell␇"),
        ("\x7f", "␡"),
        ("\x9b2J", "‹U+009B›2J"),
        ("\u202egnp", "‹U+202E›gnp"),
        ("a\u200db", "a‹U+200D›b"),
        ("\udcff", "‹FF›"),
        ("line\r", "line␍"),
        ("two\u2028lines", "two‹U+2028›lines"),
        ("日本", "日本"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_the_clipboard_gets_utf8() -> None:
    assert plain("caf\udce9") == "caf�"


def test_place_names_every_frame() -> None:
    inner = Location("/lib/libdevice.py", 7, None, Location("C:\\code\\gelu.py", 12, 8))
    assert place(inner) == "libdevice.py:7 ← gelu.py:12:8"
    assert place(None) == "no source location"


# Rows


def texts(query: str = "") -> list[str]:
    """The rows' texts."""
    return [row.text for row in rows(whole_tree(recording()), query, {})]


def test_rows_are_origins_graphs_kernels_variants() -> None:
    found = [(row.depth, row.kind) for row in rows(whole_tree(recording()), "", {})]
    assert found == [
        (0, TreeKind.ORIGIN), (1, TreeKind.KERNEL), (2, TreeKind.VARIANT), (2, TreeKind.VARIANT),
        (0, TreeKind.ORIGIN), (1, TreeKind.GRAPH), (2, TreeKind.KERNEL),
        (0, TreeKind.ORIGIN), (1, TreeKind.KERNEL),
    ]  # fmt: skip


def test_variants_are_named_by_their_differences() -> None:
    assert texts()[2:4] == ["BLOCK=1024 w4 3f2a", "BLOCK=4096 w16 84d2"]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("84d2", ["triton", "square_kernel", "BLOCK=4096 w16 84d2"]),
        ("SQUARE 4096", ["triton", "square_kernel", "BLOCK=4096 w16 84d2"]),
        ("0/0", ["inductor", "graph 0/0", "triton_poi_fused_mul_0"]),
        ("[bold]", []),
    ],
)
def test_filter(query: str, left: list[str]) -> None:
    assert texts(query) == left


def test_cuda_names_have_their_parameters_only_where_they_are_needed() -> None:
    of = recording()
    gelu = of.kernels[2]
    double = replace(
        gelu, id="k4", name="_Z11gelu_kernelPKdPdi",
        demangled="gelu_kernel(double const*, double*, int)",
    )  # fmt: skip
    both = replace(of, kernels=(gelu, double), graphs=())
    assert texts()[-1] == "gelu_kernel"
    assert [row.text for row in rows(whole_tree(both), "", {})][1:] == [
        "gelu_kernel(float const*, float*, int)",
        "gelu_kernel(double const*, double*, int)",
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("        /*0000*/                   LDC R1, c[0x0][0x28] ;",
         " /*0000*/       LDC R1, c[0x0][0x28] ;"),
        ("        /*0070*/              @!P0 EXIT ;", " /*0070*/  @!P0 EXIT ;"),
        ("        /*0070*/             @!UP0 UBRA ;", " /*0070*/ @!UP0 UBRA ;"),
        (".L_x_5:", ".L_x_5:"),
        ("        /*0000*/ short", "        /*0000*/ short"),
    ],
)  # fmt: skip
def test_a_disassembly_is_shown_with_less_air(line: str, shown: str) -> None:
    assert squeezed(line) == shown


# Stages


def subject(kernel: int, variant: int = 0) -> TreeSubject:
    """A variant of the small recording."""
    found = recording().kernels[kernel]
    return TreeSubject(found, found.variants[variant])


@pytest.mark.parametrize(
    ("kernel", "stages"),
    [(0, ("source", "ptx")), (1, ("output_code", "ptx")), (2, ("ptx", "sass"))],
)
def test_default_stages(kernel: int, stages: tuple[str, str]) -> None:
    first = subject(kernel).default(0, ())
    assert (first.value, subject(kernel).default(1, (first,)).value) == stages


def test_a_missing_stage_says_why() -> None:
    notice = load(reader(), ListingRequest(subject(2), Stage.SASS))
    assert isinstance(notice, Notice)
    assert "The object file was not kept." in notice.message
    assert "6 ptx" in notice.hint


@pytest.mark.parametrize(
    ("kernel", "stage", "line"),
    [(0, Stage.SOURCE, 5), (0, Stage.PTX, 5), (1, Stage.OUTPUT_CODE, 4)],
)
def test_a_stage_opens_at_the_kernel(kernel: int, stage: Stage, line: int) -> None:
    loaded = load(reader(), ListingRequest(subject(kernel), stage))
    assert isinstance(loaded, LoadedListing) and loaded.top == line


# Title


def test_title_parts() -> None:
    assert recording_name(recording()) == "lecture-h200"
    made = replace(recording(), path="/home/ada/20261103-063539-01_square-bb3f")
    assert recording_name(made) == "01_square 3 Nov 06:35"
    assert device_name(recording()) == "NVIDIA H200 sm_90a"
    assert counts(recording()) == "3 kernels, 4 variants, 1 graph"
    assert banner(recording()) == ""
    assert banner(target()) == "compiled for sm_90, not run on a GPU"


# Highlighting and colours


GROUNDS = [f"{how}-{hue}" for how in ("tint", "lit") for hue in range(1, 9)]


@pytest.mark.parametrize("ground", ["background", "cursor-line", "linked-line", *GROUNDS])
@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda t: t.name)
def test_tokens_can_be_read_on_every_ground(theme: object, ground: str) -> None:
    chosen = DARK if theme is DARK else LIGHT
    behind = chosen.background if ground == "background" else chosen.variables[ground]
    assert behind is not None
    for token, _, on_dark, on_light in TOKENS:
        front = on_dark if chosen.dark else on_light
        ratio = contrast(Color.parse(front), Color.parse(behind))
        assert ratio >= 4.5, f"{token} on {ground}: {ratio:.1f}"
