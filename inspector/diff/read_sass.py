"""Canonical forms of SASS: registers, predicates, barriers of convergence, labels, addresses.

A renaming keeps the registers of one operand together: where an instruction reads
R4 to R7 and names R4, the others are names of its line as well, in order. RZ, PT and the like,
special registers, constant banks and R1, the stack's pointer, are what they are. A jump to an
address (``cuobjdump``) names the instruction there, as does the address to return to
that is set before a call. A function that calls another, which is not part of it, hands over
values in certain registers: its registers are what they are called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from inspector.diff.forms import HOLE, SELF, Aliases, CanonicalForm, Forms, plain
from inspector.listing.line import Function, Kind, Line, Listing

_REGISTER = r"(?<![.$`])\b(?:U?[RP]|B)\d{1,3}\b"
_REGISTERS = re.compile(f"({_REGISTER})").split
_SPLIT = re.compile(rf"({_REGISTER}|(?<![\w$])\.L_?x?_?\d++\b)").split
_COMMENT = re.compile(r"/\*[^*]*+\*/")
_JUMP = re.compile(
    r"(?:BRA|BRX|BRXU|JMP|JMX|CALL|JCAL|CAL|BSSY|SSY|PBK|PCNT|PRET|WARPSYNC)\b[^;`]*?"
    r"\b(0x[0-9a-f]++)\s*+;"
)
_RETURN = re.compile(r"\bMOV[\w.]*+ (?:(?!\bMOV)[^;])*?\b(0x[0-9a-f]{1,15})\s*+;")
_INTERNAL = re.compile(r"\$__internal_\d++_[\w$]++")
_LOCATION = re.compile(r"\s*+//##")


def read_sass(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``."""
    name = function.name if function else ""
    own = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    lines = listing.lines[first - 1 : first - 1 + len(texts)]
    jumped = _addresses(texts)
    classes: dict[str, str] = {}
    if any("CALL" in text for text in texts):
        returns, calls = _calls(lines, name)
        jumped |= returns
        classes = {"": "ABI"} if calls else {}
    out: list[CanonicalForm] = []
    quiet: dict[int, str] = {}
    comment, blank, instruction = Kind.COMMENT, Kind.BLANK, Kind.INSTRUCTION
    for line in lines:
        kind = line.kind
        if kind is comment or kind is blank:
            if _LOCATION.match(line.text):
                quiet[line.n] = "//##"
            continue
        text = line.text
        if kind is instruction:
            comment_end = text.find("*/")
            key = text[comment_end + 2 :] if comment_end >= 0 else text
            if "/*" in key:
                key = _COMMENT.sub("", key)
            extra: tuple[str, ...] = ()
            if jumped:
                jump = _JUMP.search(key) or _RETURN.search(key)
                if jump and (jump.re is _JUMP or int(jump[1], 16) in jumped):
                    key = key[: jump.start(1)] + HOLE + key[jump.end(1) :]
                    extra = (f"@{int(jump[1], 16)}" if len(jump[1]) < 16 else jump[1],)
                if line.address in jumped:
                    extra += (f"@{line.address}",)
            if "_" in key:
                key, extra = _symbols(key, name, own, extra)
            parts = _SPLIT(key) if ".L" in key else _REGISTERS(key)
            names = parts[1::2]
            if len(line.defs) + len(line.uses) > len(names):
                operands = (*line.defs, *line.uses)
                names += [register for register in operands if register not in names]
            out.append(
                CanonicalForm(line.n, " ".join(HOLE.join(parts[::2]).split()), (*names, *extra))
            )
            continue
        key = _COMMENT.sub("", text).partition("//")[0]
        key, extra = _symbols(key, name, own, ())
        if key.lstrip().startswith((".size", ".type")):
            extra = ()
        parts = _SPLIT(key)
        out.append(
            CanonicalForm(line.n, " ".join(HOLE.join(parts[::2]).split()), (*parts[1::2], *extra))
        )
    return Forms(first, first - 1 + len(texts), tuple(out), quiet, classes, {}, "sass")


def _addresses(texts: Sequence[str]) -> set[int]:
    """Where jumps go, in a text without labels."""
    if any("`(" in text for text in texts):
        return set()
    targets = (m[1] for text in texts if (m := _JUMP.search(text)))
    return {int(address, 16) for address in targets if len(address) < 16}


def _calls(lines: Sequence[Line], name: str) -> tuple[set[int], bool]:
    """The addresses to which calls return, and whether one leaves these lines."""
    labels = {line.label for line in lines if line.label is not None} - {name}
    places = {line.address for line in lines if line.address is not None}
    returns: set[int] = set()
    leaves = False
    called = False
    for line in lines:
        if line.address is None:
            continue
        if called:
            returns.add(line.address)
        called = line.base in ("CALL", "JCAL", "CAL")
        if called:
            target = line.targets[-1] if line.targets else ""
            inside = target in labels or (
                target[:2] == "0x" and len(target) < 16 and int(target, 16) in places
            )
            leaves |= not inside
    return returns, leaves


def class_of(name: str, classes: Mapping[str, str]) -> str:
    """The register file or the kind of label; the register itself if the function makes calls."""
    if name[0] in ".@$":
        return name[0]
    if name == "R1" or (classes and name[0] == "R"):
        return name
    return name.rstrip("0123456789")


def _symbols(
    key: str, name: str, own: re.Pattern[str], extra: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """The function's own name, and those of the functions that ptxas added, which are numbered."""
    if name and name in key:
        key = own.sub(SELF, key)
    if "__internal_" in key:
        extra += tuple(_INTERNAL.findall(key))
    return plain(key), extra
