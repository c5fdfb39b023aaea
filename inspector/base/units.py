"""Quantities in sentences: bytes, times, counted nouns, and lists cut to a length."""

from collections.abc import Sequence


def word_for(count: int, word: str) -> str:
    """``load`` for one, ``loads`` of others; ``accesses``, ``copies``, ``results of LDG``."""
    if count == 1:
        return word
    head, separator, complement = word.partition(" of ")
    if head.endswith(("s", "ch")):
        return f"{head}es{separator}{complement}"
    if head.endswith("y") and head[-2:-1] not in "aeiou":  # copies, but days
        return f"{head[:-1]}ies{separator}{complement}"
    return f"{head}s{separator}{complement}"


def plural(count: int, word: str) -> str:
    """``1 request``, ``1,823 requests``."""
    return f"{count:,} {word_for(count, word)}"


def some(names: Sequence[str], limit: int = 3) -> str:
    """``a``, ``a and b``, ``a, b, c and 4 more``."""
    hidden_count = len(names) - limit
    if hidden_count > 0:
        return f"{', '.join(names[:limit])} and {hidden_count} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def kibibytes(count: int) -> str:
    """Bytes of a block's memory: ``97 KiB``, ``1.02 KiB``, ``512 B``, ``0``."""
    if count < 1024:
        return f"{count} B" if count else "0"
    if count >= 999.5 * 1024:  # of any size: a damaged file may hold what no float does
        return f"{(count + 512) // 1024:,} KiB"
    return f"{count / 1024:.3g} KiB"


def whole_percent(value: float) -> str:
    """``3 %``; ``<1 %`` and ``>99 %`` where rounding would say none or all."""
    if 0 < value < 0.5:
        return "<1 %"
    if 99.5 < value < 100:
        return ">99 %"
    return f"{value:.0f} %"


def seconds(value: float) -> str:
    """``1.25 s``, ``38 ms``, ``0.4 ms``."""
    if value >= 0.9995:
        return f"{value:.2f} s" if value < 99.995 else f"{value:,.0f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.00995 else f"{value * 1000:.1f} ms"


def microseconds(us: float) -> str:
    """µs to as many places as are worth reading: ``1.38``, ``30.4``, ``1,234``."""
    return f"{us:.2f}" if us < 9.995 else f"{us:.1f}" if us < 999.95 else f"{us:,.0f}"


def time_span(us: float) -> str:
    """A time with its unit: ``9,628 µs``, ``13.9 ms``, ``1,477 ms``, ``12.3 s``."""
    if us < 1e4:
        return f"{microseconds(us)} µs"
    return f"{microseconds(us / 1e3)} ms" if us < 1e7 else f"{microseconds(us / 1e6)} s"
