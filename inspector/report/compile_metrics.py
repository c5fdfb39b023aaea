"""Torch's own figures of each compile: skipped CUDA graphs, failures, times, cache lookups.

The words are in ``reference/compile_metrics.toml``.
"""

from collections.abc import Iterator, Mapping

from rich.text import Text

from inspector.base.model import FrameCompile
from inspector.base.text import plural, seconds, shown, word_for
from inspector.reader.tables import table

MICROSECONDS_SHOWN = 500
"""Times below this are noise of torch's clock."""


def rows(one: FrameCompile) -> Iterator[Text]:
    """Yield a line for each kind of figure that torch gave of a compile."""
    words, figures = table("compile_metrics"), one.figures
    said: dict[str, list[str]] = {}
    for name, label in words["text"].items():
        if text := _text(figures.get(name)):
            said.setdefault(label, []).append(text)
    for label, texts in said.items():
        yield Text(shown(f"    {label}: {': '.join(texts)}"))
    parts = (
        ("times", list(_times(figures, words["microseconds"]))),
        ("lookups", list(_lookups(figures, words["lookups"]))),
        ("counts", list(_counts(figures, words["counts"]))),
    )
    for label, texts in parts:
        if texts:
            yield Text(f"    {label}: {' · '.join(texts)}", "dim")


def _text(value: object) -> str:
    """A text, or several, on one line."""
    values = value if isinstance(value, list) else [value] if value else []
    return ", ".join(" ".join(str(part).split()) for part in values)


def _times(figures: Mapping[str, object], words: Mapping[str, str]) -> Iterator[str]:
    for name, label in words.items():
        value = figures.get(name)
        if isinstance(value, int | float) and value >= MICROSECONDS_SHOWN:
            yield f"{label} {seconds(value / 1e6)}"


def _lookups(figures: Mapping[str, object], words: Mapping[str, str]) -> Iterator[str]:
    for name, label in words.items():
        counts = ((outcome, figures.get(f"{name}_{outcome}_count")) for outcome in ("hit", "miss"))
        texts = [
            f"{count} {word_for(count, outcome)}"
            for outcome, count in counts
            if isinstance(count, int) and count > 0
        ]
        if texts:
            yield f"{label} {', '.join(texts)}"


def _counts(figures: Mapping[str, object], words: Mapping[str, str]) -> Iterator[str]:
    for name, noun in words.items():
        value = figures.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            yield plural(value, noun)
