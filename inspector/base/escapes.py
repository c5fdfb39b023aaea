"""Texts that are harmless on a terminal.

``shown`` draws a control character as its picture (``␛``), and anything else without a visible
shape (direction marks, joiners, bytes that were not UTF-8) as its number.
"""

import unicodedata
from collections.abc import Mapping


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


def visible(value: object) -> object:
    """A value of JSON with each text, names of members too, as ``lines_shown`` makes it."""
    if isinstance(value, str):
        return lines_shown(value)
    if isinstance(value, list | tuple):
        return [visible(item_value) for item_value in value]
    if isinstance(value, Mapping):
        return {lines_shown(str(name)): visible(item_value) for name, item_value in value.items()}
    return value
