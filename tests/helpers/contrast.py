"""How well letters stand out from what they stand on."""

from __future__ import annotations

from textual.color import Color
from textual.pilot import Pilot

FRAME = " │╭╮╰╯─"
"""What is no letter."""


def contrast(a: Color, b: Color) -> float:
    """The ratio of WCAG 2.1, 1 to 21; text is meant to have 4.5."""

    def luminance(color: Color) -> float:
        parts = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def hard_to_read(pilot: Pilot[None]) -> list[str]:
    """Parts of the screen whose letters stand out too little."""
    out = []
    for strip in pilot.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if style is None or style.color is None or style.bgcolor is None:
                continue
            front, behind = map(Color.from_rich_color, (style.color, style.bgcolor))
            if text.strip(FRAME) and contrast(front, behind) < 4.5:
                out.append(text)
    return out
