"""Text of unknown make, fit for a terminal: what it would obey is shown, and obeyed by nobody.

A control character is drawn as its picture (``␛``), anything else without a shape of its own
(direction marks, joiners, bytes that were not UTF-8) as its number.
"""

from __future__ import annotations

import unicodedata

# Sets of words, written as one reads them.


def words(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


def symbol(char: str) -> str:
    """One character that must not reach a terminal, as a text that may."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogate escape
        return f"‹{code - 0xDC00:02X}›"
    return f"‹U+{code:04X}›"


def harmless(char: str) -> bool:
    """Whether a character only draws itself, or leaves a space."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def shown(text: str) -> str:
    """One line of text with every control character made visible; a tab stays a tab."""
    if text.isprintable() or text.replace("\t", " ").isprintable():
        return text
    return "".join(c if c == "\t" or harmless(c) else symbol(c) for c in text)


def lines_shown(text: str) -> str:
    """Several lines of text, each as ``shown`` makes it."""
    return text if text.isprintable() else "\n".join(map(shown, text.split("\n")))
