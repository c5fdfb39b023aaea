"""Virtual registers that a function of PTX declares. They are ptxas's to allocate: no figure of
the machine follows from their number."""

from __future__ import annotations

import re

from inspector.listing.line import Function, Kind, Listing

# PTX ISA, "Parameterized Variable Names": %r<33> declares %r0 to %r32.
_REG = re.compile(r"\.reg\s++((?:\.\w++\s*+)++)([^;]*+)")
_NAME = re.compile(r"[%\w$]++\s*+(?:<\s*+(\d{1,9})\s*+>)?")


def declared(listing: Listing, function: Function) -> dict[str, int]:
    """How many registers of each class ``.reg`` declares (``b32``, ``pred``, ``v2.f32``)."""
    out: dict[str, int] = {}
    if listing.language != "ptx":
        return out
    for line in listing.lines[max(function.first - 1, 0) : function.last]:
        if line.kind is not Kind.DIRECTIVE or ".reg" not in line.text:
            continue
        for types, names in _REG.findall(line.text):
            name = ".".join(types.replace(".", " ").split())
            for one in names.split(","):
                if found := _NAME.fullmatch(one.strip()):
                    out[name] = out.get(name, 0) + (int(found[1]) if found[1] else 1)
    return out
