"""Whether the machine code of a report is that of a listing, and where its samples stand there.

ncu prints where branches went in memory, nvdisasm a label; ncu leaves out which operands are kept
for reuse. Everything else must be equal, instruction by instruction, for samples to be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from inspector.analyse.samples import Samples
from inspector.bench.ncu import Instruction, Launch
from inspector.listing.line import Function, Kind, Line, Listing

_ADDRESS = re.compile(r"\A\s*/\*[0-9a-f]+\*/\s*")
_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"`\(([^()]*)\)")
_HEX = re.compile(r"\b0x[0-9a-f]{5,16}\b")
# What the linker fills in is a number in memory.
_RELOCATED = "32@"


def placed(launch: Launch, listing: Listing, function: Function) -> dict[int, Samples] | str:
    """The samples of a launch by the lines of a listing; or why they cannot be shown there."""
    if not launch.code:
        return "the report has no machine code (export the source page too)"
    lines = [
        listing.lines[n - 1]
        for n in range(function.first, function.last + 1)
        if listing.lines[n - 1].address is not None
    ]
    labels = dict(_labels(listing, function))
    theirs = _without_padding([(i.offset, i.text) for i in launch.code])
    ours = _without_padding([(line.address or 0, _bare(line.text)) for line in lines])
    if len(theirs) != len(ours):
        return f"its machine code has {len(theirs)} instructions, this one {len(ours)}"
    start = ours[0][0] if ours else 0
    end = launch.code[-1].offset
    for (offset, text), (address, own) in zip(theirs, ours, strict=True):
        if offset != address - start or not _same(text, own, launch.base, end, labels, start):
            return f"its machine code differs from this at {address:#x}: {_words(text)}"
    if not any(i.samples for i in launch.code):
        return "the report was made without sampling"
    by_address = {(line.address or 0) - start: line.n for line in lines}
    return {
        by_address[i.offset]: i.samples
        for i in launch.code
        if i.samples is not None and i.offset in by_address
    }


def _bare(text: str) -> str:
    """An instruction without its address and its semicolon."""
    return _ADDRESS.sub("", text).partition(";")[0]


def _words(text: str) -> str:
    return _SPACE.sub(" ", text.replace("{", "").replace("}", "")).strip().removesuffix(";").strip()


def _without_padding(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the NOPs at the end, which only fill the section."""
    end = len(code)
    while end and _words(code[end - 1][1]) == "NOP":
        end -= 1
    return list(code[:end])


def _labels(listing: Listing, function: Function) -> Iterator[tuple[str, int]]:
    """The labels of a function with the addresses that they stand for."""
    waiting: list[str] = []
    for n in range(function.first, function.last + 1):
        line: Line = listing.lines[n - 1]
        if line.kind is Kind.LABEL and line.label is not None:
            waiting.append(line.label)
        elif line.address is not None:
            yield from ((name, line.address) for name in waiting)
            waiting = []


def _same(
    theirs: str, ours: str, base: int, end: int, labels: dict[str, int], start: int
) -> bool:  # fmt: skip
    left, right = _words(theirs).replace(".reuse", ""), _words(ours).replace(".reuse", "")
    if left == right:
        return True
    if _RELOCATED in right:
        return left.split(",")[0] == right.split(",")[0]

    def offset(found: re.Match[str]) -> str:
        value = int(found[0], 16) - base
        return f"{value:#x}" if 0 <= value <= end else found[0]

    def target(found: re.Match[str]) -> str:
        at = labels.get(found[1])
        return found[0] if at is None else f"{at - start:#x}"

    return _HEX.sub(offset, left) == _LABEL.sub(target, right)


def text_of(launch: Launch, name: str) -> str:
    """The code of a report as ``cuobjdump -sass`` prints it: offsets, branches within the code."""
    end = launch.code[-1].offset if launch.code else 0

    def offset(found: re.Match[str]) -> str:
        value = int(found[0], 16) - launch.base
        return f"{value:#x}" if 0 <= value <= end else found[0]

    rows = [f"\t\tFunction : {name}"]
    for one in launch.code:
        text = _HEX.sub(offset, _instruction(one))
        rows.append(f"        /*{one.offset:04x}*/{' ' * 19}{text} ;")
    return "\n".join([*rows, "\t\t..........", ""])


def _instruction(one: Instruction) -> str:
    """Its text on one line, whatever the report holds."""
    return _SPACE.sub(" ", one.text).removesuffix(";").strip()
