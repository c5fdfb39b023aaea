"""Figures, names, rows, stages, colours: what the widgets draw, without a terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.color import Color

from inspector.base.model import Resources, Stage
from inspector.tui.panes.pane import ListingRequest, load, missing
from inspector.tui.tree.rows import recording_tree, rows
from inspector.tui.widgets.notice import Notice, squeezed, visible
from inspector.tui.widgets.subject import TreeSubject, spilled, spills
from inspector.tui.widgets.theme import DARK, LIGHT, TOKENS
from inspector.tui.widgets.tool_screen import fitting_facts
from tests.helpers.contrast import contrast
from tests.helpers.sample import reader, recording


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\tmov", "    mov"),
        ("a\tb", "a   b"),
        ("\x1b[31mred", "␛[31mred"),
        ("\x9b2J", "‹U+009B›2J"),
        ("\u202egnp", "‹U+202E›gnp"),
        ("\udcff", "‹FF›"),
        ("two\u2028lines", "two‹U+2028›lines"),
        ("日本", "日本"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(text: str, shown: str) -> None:
    assert visible(text) == shown


def texts(query: str = "") -> list[str]:
    return [row.text for row in rows(recording_tree(recording()), query, {})]


def test_cuda_names_have_their_parameters_only_where_they_are_needed() -> None:
    of = recording()
    gelu = of.kernels[2]
    double = replace(
        gelu, id="k4", name="_Z11gelu_kernelPKdPdi",
        demangled="gelu_kernel(double const*, double*, int)",
    )  # fmt: skip
    both = replace(of, kernels=(gelu, double), graphs=())
    assert texts()[-1] == "gelu_kernel"
    assert [row.text for row in rows(recording_tree(both), "", {})][1:] == [
        "gelu_kernel(float const*)",
        "gelu_kernel(double const*)",
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


def subject(kernel: int, variant: int = 0) -> TreeSubject:
    found = recording().kernels[kernel]
    return TreeSubject(found, found.variants[variant])


def test_a_missing_stage_says_why() -> None:
    notice = load(reader(), ListingRequest(subject(2), Stage.SASS))
    assert isinstance(notice, Notice)
    assert "The object file was not kept." in notice.message
    assert "6 ptx" in notice.hint


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


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("only its machine code passes the driver", "No ptx here: only its machine code"),
        ("Triton could not compile it", "No ptx here. Triton could not"),
    ],
)
def test_the_reason_for_a_missing_stage_is_a_sentence_or_goes_on(reason: str, message: str) -> None:
    kernel = recording().kernels[0]
    variant = replace(kernel.variants[0], missing={Stage.PTX: reason})
    assert missing(TreeSubject(kernel, variant), Stage.PTX).message.startswith(message)


@pytest.mark.parametrize(
    ("width", "text"), [(24, "step 2 of 11 · lane 0"), (20, "step 2 of 11"), (8, "step 2…")]
)
def test_facts_of_a_title_are_left_out_whole(width: int, text: str) -> None:
    assert fitting_facts("step 2 of 11 · lane 0", width) == text
