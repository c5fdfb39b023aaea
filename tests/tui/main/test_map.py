"""The map: lines of all panes by the source line that they come from, and panes that scroll along.

Judged by what LLVM wrote behind each ``.loc`` of the recorded PTX.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import dist
from statistics import median

import pytest
from textual.color import Color
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from inspector.analysis.line_annotations import HUES
from inspector.tui.code.code_view import CodeView
from inspector.tui.widgets.theme import DARK, LIGHT, TINTS
from tests.helpers.nightly import nightly
from tests.helpers.sample import settle
from tests.helpers.shared_app import lecture_app, started


async def mapped(pilot: Pilot[None], *keys: str) -> tuple[CodeView, CodeView]:
    """Source and PTX of a kernel beside each other, the PTX's cursor moved a little; ``keys`` are
    pressed before."""
    await settle(pilot)
    screen = await settle(pilot, "slash", *"softmax", "enter", "b", "tab", *keys, *("j" * 5))
    await settle(pilot)
    source, ptx = (pane.view for pane in screen.panes.panes)
    return source, ptx


def source_line(ptx: CodeView, n: int) -> int | None:
    """The line of the kernel's file that an instruction is from, by the comment above it."""
    assert ptx.source is not None
    texts = ptx.source.texts
    if not texts[n - 1].startswith("\t") or texts[n - 1].strip().startswith((".", "//")):
        return None
    for text in reversed(texts[: n - 1]):
        if text.strip().startswith(".loc"):
            file, line = text.rpartition("//")[2].split("@[")[-1].strip(" ]").split(":")[:2]
            return int(line) if file == "softmax.py" else None
    return None


def grounds(view: CodeView) -> Iterator[tuple[int, str]]:
    """Of the rows in view the line and its background, which is that of its last cell."""
    for y, (n, _) in enumerate(view.laid()):
        style = list(view.render_line(y))[-1].style
        assert style is not None and style.bgcolor is not None
        yield n, style.bgcolor.name


def drawn(view: CodeView) -> list[list[tuple[str, str]]]:
    """The rows of a view as they are on the screen."""
    strips = view.render_lines(Region(0, 0, *view.size))
    return [[(segment.text, str(segment.style)) for segment in strip] for strip in strips]


async def test_a_step_of_the_cursor_draws_only_lines_that_look_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lecture_app.run_test(size=(200, 60)) as pilot:
        await settle(pilot)
        await settle(pilot, "slash", *"softmax", "enter", "tab")
        rows_drawn = 0
        render_line = CodeView.render_line

        def counted(self: CodeView, y: int) -> Strip:
            nonlocal rows_drawn
            rows_drawn += 1
            return render_line(self, y)

        monkeypatch.setattr(CodeView, "render_line", counted)
        rows_by_step = []
        for key in (*("j" * 8), *("k" * 5)):
            rows_drawn = 0
            screen = await settle(pilot, key)
            await settle(pilot)
            views = [pane.view for pane in screen.panes.panes if pane.display]
            on_screen = [drawn(view) for view in views]
            rows_by_step.append(rows_drawn)
            for view in views:
                view.refresh()
            assert on_screen == [drawn(view) for view in views]
        assert len(views) == 3
        rows_in_view = sum(view.size.height for view in views)
        assert median(rows_by_step) < rows_in_view / 2


async def test_lines_of_one_source_line_have_its_colour_in_every_pane() -> None:
    async with lecture_app.run_test(size=(160, 48)) as pilot:
        source, ptx = await mapped(pilot)
        of_source = dict(grounds(source))
        plain = of_source.get(1, DARK.background)
        compared = set()
        for n, ground in grounds(ptx):
            line = source_line(ptx, n)
            if n == ptx.cursor or line not in of_source:
                continue
            assert ground == of_source[line], n
            assert ground != plain
            compared.add(line)
        assert len(compared) > 2
        for a, b in pairwise(sorted(compared)):
            assert of_source[a] != of_source[b]


async def test_without_colours_letters_tell_the_groups_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with lecture_app.run_test(size=(160, 48)) as pilot:
        source, ptx = await mapped(pilot, "m")
        letters = {n: source.render_line(y).text[1] for y, (n, _) in enumerate(source.laid())}
        checked = 0
        for y, (n, _) in enumerate(ptx.laid()):
            letter = ptx.render_line(y).text[1]
            line = source_line(ptx, n)
            if line in letters:
                assert letter == letters[line]
                assert letter.isupper() == (line == source_line(ptx, ptx.cursor))
                checked += 1
        assert checked > 10
        assert {letter.lower() for letter in letters.values()} > set("abc")


@pytest.mark.parametrize(
    ("variables", "mapped_at_first"),
    [
        ({"COLORTERM": "truecolor"}, True),
        nightly({"COLORTERM": "", "TERM": "xterm-256color"}, True),
        ({"COLORTERM": "", "TERM": "xterm-16color"}, False),
        nightly({"COLORTERM": "truecolor", "NO_COLOR": "1"}, False),
    ],
)
async def test_the_map_is_on_where_there_are_colours_for_it(
    variables: dict[str, str], mapped_at_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with started("tab", size=(120, 40)) as (pilot, screen):
        assert screen.panes.mapped == mapped_at_first
        await settle(pilot, "m")
        assert screen.panes.mapped != mapped_at_first
        assert screen.remembered is not None
        assert screen.remembered.map_chosen == (not mapped_at_first)


# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", 2009, severity 1, on linear RGB.
SIGHTS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def lab(colour: str, sight: str) -> tuple[float, float, float]:
    """CIE L*a*b* (D65) of a colour as someone sees it."""
    rgb = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
           for c in Color.parse(colour).normalized]  # fmt: skip
    r, g, b = (max(0.0, sum(m * c for m, c in zip(row, rgb, strict=True))) for row in SIGHTS[sight])
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda t: t.name)
def test_eight_colours_are_eight_to_everybody(theme: object, sight: str) -> None:
    """Two patches that touch differ to the eye from a distance of 2.3 on: here they stand apart."""
    chosen = DARK if theme is DARK else LIGHT
    tints, lit = TINTS["dark" if chosen.dark else "light"]
    assert len(tints) == len(lit) == HUES
    seen = [lab(colour, sight) for colour in tints]

    def apart(a: tuple[float, ...], b: tuple[float, ...]) -> float:
        return dist(a, b)

    assert chosen.background is not None
    ground = lab(chosen.background, sight)
    assert min(apart(a, b) for a, b in combinations(seen, 2)) > 2.3
    assert min(apart(a, b) for a, b in pairwise([*seen, seen[0]])) > 4
    assert min(apart(a, ground) for a in seen) > 2.3
