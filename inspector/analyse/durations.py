"""Times in words: one formatter for every table and sentence."""

from __future__ import annotations


def microseconds(us: float) -> str:
    """µs to as many places as are worth reading: ``1.38``, ``30.4``, ``1,234``."""
    return f"{us:.2f}" if us < 9.995 else f"{us:.1f}" if us < 999.95 else f"{us:,.0f}"
