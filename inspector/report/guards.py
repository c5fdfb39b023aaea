"""What a compiled function takes for granted of inputs and globals: torch's guards, as lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.text import Text

from inspector.base.model import FrameCompile
from inspector.base.text import plural, shown
from inspector.report.compiles import called

MOST = 10_000
"""Guards shown of one compile."""
LONGEST = 600
# A row of torch's tree of guards: `| | +- EQUALS_MATCH: L['n'] == 3`.
_ROW = re.compile(r"[|\s]{0,400}\+- ([A-Z][A-Z0-9_]{1,60}): ")
_PLACE = re.compile(r"\S{1,4096}:\d{1,9} in \S{1,400}")


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard in torch's words: its ``kind`` (``TENSOR_MATCH``), what is compared, the line of
    the program for which it was made, and that line's place if known."""

    kind: str
    expression: str
    code: str = ""
    place: str = ""


def guards_in(text: str) -> list[Guard]:
    """The guards in torch's tree of them, in its order. Never raises."""
    out: list[Guard] = []
    for row in text.split("\n"):
        match = _ROW.match(row)
        if match is None:
            continue
        rest = row[match.end() :]
        before, mark, place = rest.rpartition("  # ")
        if not mark or not _PLACE.fullmatch(place.strip()):
            before, place = rest, ""
        expression, _, code = before.partition("  # ")
        out.append(
            Guard(match[1], expression.strip()[:LONGEST], code.strip()[:LONGEST], place.strip())
        )
        if len(out) == MOST:
            break
    return out


def lines(told: Iterable[tuple[FrameCompile, list[Guard]]]) -> Iterator[Text]:
    """Each compile with its guards, those that the program's lines made first."""
    for one, guards in told:
        counts = Counter(guard.kind for guard in guards)
        many = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        head = Text(f"{shown(one.id)} ")
        head.append(called(one), "bold")
        head.append(f"  {plural(len(guards), 'guard')}: {many}" if guards else "  no guards")
        yield head
        for guard in sorted(guards, key=lambda guard: not guard.code):
            made_by = "  ".join(part for part in (guard.code, guard.place) if part)
            row = Text(f"  {guard.kind:<16} {shown(guard.expression)}")
            row.append(f"  {shown(made_by)}" if made_by else "", "dim")
            yield row


def document(one: FrameCompile, guards: list[Guard]) -> dict[str, object]:
    """The guards of a compile as ``list --guards --json`` has them."""
    return {
        "compile": one.id,
        "direction": one.direction,
        "process": one.process,
        "function": one.function,
        "file": one.file or None,
        "line": one.line,
        "guards": [
            {
                "kind": guard.kind,
                "expression": guard.expression,
                "code": guard.code or None,
                "place": guard.place or None,
            }
            for guard in guards
        ],
    }
