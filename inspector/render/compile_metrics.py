"""Torch's own figures of each compile: skipped CUDA graphs, failures, times, cache lookups.

The words are those of ``reference/compile_metrics.toml``.
"""

from collections.abc import Iterator, Mapping

from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.units import plural, seconds, word_for

Words = Mapping[str, Mapping[str, str]]
"""Words for the fields of each kind: texts, microseconds, lookups and counts."""
MICROSECONDS_SHOWN = 500
"""Times below this are noise of torch's clock."""


def rows(figures: Mapping[str, object], words: Words) -> Iterator[Text]:
    """Yield a line for each kind of figure that torch gave of a compile."""
    texts_by_label: dict[str, list[str]] = {}
    for name, label in words.get("text", {}).items():
        if text := _text(figures.get(name)):
            texts_by_label.setdefault(label, []).append(text)
    for label, texts in texts_by_label.items():
        yield Text(shown(f"    {label}: {': '.join(texts)}"))
    parts = (
        ("times", list(_times(figures, words.get("microseconds", {})))),
        ("lookups", list(_lookups(figures, words.get("lookups", {})))),
        ("counts", list(_counts(figures, words.get("counts", {})))),
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
