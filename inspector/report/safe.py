"""Text of unknown make, fit for a terminal: control characters are shown, not obeyed."""

from __future__ import annotations

# Unicode has a picture for each C0 control; C1 controls and bidirectional marks have none.
_SHOWN = {n: chr(0x2400 + n) for n in range(0x20) if n != 0x09}
_SHOWN[0x7F] = "␡"
_SHOWN.update({n: f"\\x{n:02x}" for n in range(0x80, 0xA0)})
_SHOWN.update({n: f"\\u{n:04x}" for n in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C,
                                           0x200E, 0x200F, 0x2028, 0x2029)})  # fmt: skip
_SHOWN.update(dict.fromkeys(range(55296, 57344), "�"))


def lines_shown(text: str) -> str:
    """Several lines of text, each as ``shown`` makes it."""
    return "\n".join(shown(line) for line in text.split("\n"))


def shown(text: str) -> str:
    """One line of text with every control character made visible; a tab stays a tab."""
    return text.translate(_SHOWN)
