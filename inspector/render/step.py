"""Steps of a block in a plain terminal: the line at hand, values, strips of lanes; and JSON."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.units import plural
from inspector.execute.calls.stepper import (
    LaneStrip,
    LaneValue,
    LineResult,
    ListedLine,
    StepAnswer,
    StepPlace,
)
from inspector.render import jsons
from inspector.render.tables import UNKNOWN, clean, cut

ACTIVE, IDLE = "█", "·"
"""A lane that ran the step, and one that did not."""
STORED = "→"
"""Before what went to memory."""
WARP = 32


def rows(answer: StepAnswer, width: int) -> Iterator[Text]:
    if answer.place is not None and answer.shows_place:
        yield from _place(answer.place, width)
    for value in answer.values:
        yield Text(cut("  " + value_line(value, with_line=True), width))
    for strip in answer.strips:
        yield from _strip(strip, width)
    if answer.listing:
        yield from _listing(answer.listing, width)
    for name, meaning in answer.help:
        yield Text.assemble(("  " + name.ljust(20), "bold"), meaning)
    if answer.note:
        yield Text(shown(answer.note), style="yellow" if answer.understood else "red")


def _place(place: StepPlace, width: int) -> Iterator[Text]:
    location = ""
    if place.source is not None:
        inner, outer = place.source, place.source.frames()[-1]
        places = [f"{shown(x.file.rsplit('/', 1)[-1])}:{x.line}" for x in (inner, outer)]
        location = f" · {' from '.join(places[: 1 if outer is inner else 2])}"
    yield Text(
        cut(f"step {place.step:,} of {place.steps:,} · PTX line {place.line}{location}", width),
        "bold",
    )
    yield Text("  " + cut(statement(place.statement), width - 2), "cyan")
    for value in place.values:
        yield Text(cut("  " + value_line(value), width), "green" if place.runs else "dim")
    who, strip, share = lane_texts(place)
    if len(who) + len(strip) + len(share) + 6 > width:
        yield Text(cut(f"  {who}", width))
        who = ""
    yield Text(cut("  ".join(filter(None, ("", who, strip, share))), width))


def statement(text: str) -> str:
    """A statement of PTX on one line."""
    return " ".join(clean(text).split())


def lane_texts(place: StepPlace) -> tuple[str, str, str]:
    """Who the chosen lane is, its warp's lanes, and how many of them ran the step."""
    warp, lane = divmod(place.lane, WARP)
    idle = "" if place.runs else " does not run it"
    return (
        f"lane {place.lane} (warp {warp}, lane {lane}){idle}",
        "".join(ACTIVE if on else IDLE for on in place.strip.active),
        f"{place.warp_lanes} of {len(place.strip.active)}, "
        f"block {place.block_lanes} of {place.threads}",
    )


def value_line(value: LaneValue, with_line: bool = False) -> str:
    """``%r5 (row) s32 = 781``, with the line that wrote it if ``with_line``."""
    name = f" ({shown(value.name)})" if value.name else ""
    line_text = f"  of line {value.line}" if with_line and value.line is not None else ""
    return f"{shown(value.register)}{name} {value.kind} = {value_text(value)}{line_text}"


def value_text(value: LaneValue) -> str:
    """A register's value, an address as a place in its tensor."""
    if value.value is None:
        return "not written yet"
    if value.address_in is None:
        return number(value.value, value.kind)
    return f"{shown(value.address_in[0])} + {value.address_in[1]:,}"


def number(value: float | int | tuple[float | int, ...] | None, kind: str) -> str:
    """Format a value: ``781``, ``0.52318``, ``true``, ``(1, 2)``, an address in hex."""
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple):
        return "(" + ", ".join(number(member, kind) for member in value) + ")"
    if kind == "pred":
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value) if abs(value) >= 1 << 40 else str(value)
    return f"{value:.7g}"  # also inf and nan


def result_text(result: LineResult, width: int | None = None) -> str:
    """What a line gave the chosen lane, in at most ``width`` cells: ``-5.48``, ``1.5 0.25 +2``,
    ``→ 0.12`` to memory, ``·`` nothing. In brackets where the lane did not run its last step."""
    prefix = f"{STORED} " if result.stored else ""
    ends = "" if result.runs else "[]"
    room = None if width is None else max(1, width - len(prefix) - len(ends))
    count = len(result.values)
    text = IDLE
    for shown_count in range(count, 0, -1):
        texts = " ".join(
            short(value, None if count > 1 else room) for value in result.values[:shown_count]
        )
        text = texts + (f" +{count - shown_count}" if shown_count < count else "")
        if room is None or len(text) <= room:
            break
    text = text if room is None else cut(text, room)
    return f"[{prefix}{text}]" if ends else prefix + text


def short(value: LaneValue, width: int | None) -> str:
    """A value in at most so many cells; of an address in a tensor the name is what is cut."""
    text = value_text(value)
    if width is None or len(text) <= width:
        return text
    if value.address_in is None:
        return cut(text, width)
    name, offset = shown(value.address_in[0]), f"+{value.address_in[1]}"
    room = width - len(offset)
    return offset if room < 2 else cut(name, room) + offset


def last_result_text(
    results: Iterable[LineResult], width: int, names: Collection[str] = ()
) -> tuple[str, bool]:
    """What several lines of the PTX together last gave the chosen lane, with the register's name:
    ``numerator 0.24``; and whether it ran the step of that.

    A value that is called one of ``names`` comes before others that the source names, and these
    before those of no name.
    """
    by_step = sorted(results, key=lambda result: result.step)
    if not by_step:
        return "", True
    value, last = _last_value(by_step, names)
    if value is None:
        return result_text(last, width), last.runs
    room = width - (0 if last.runs else 2)
    text = short(value, room)
    name_room = room - len(text) - 1
    if name_room > 1:
        text = f"{cut(shown(value.name or value.register), name_room)} {text}"
    return (text if last.runs else f"[{text}]"), last.runs


def _last_value(
    results: Sequence[LineResult], names: Collection[str]
) -> tuple[LaneValue | None, LineResult]:
    """The value that tells most of lines that were run, the last of its kind; None for what was
    stored, or for none."""
    for only in (names, None):
        for result in reversed(results):
            for value in () if result.stored else reversed(result.values):
                if value.name is not None and (only is None or value.name in only):
                    return value, result
    last = next((result for result in reversed(results) if result.values), results[-1])
    return (None if last.stored or not last.values else last.values[-1]), last


LEVELS = "▁▂▃▄▅▆▇█"
NO_NUMBER = "N"
"""A lane with a NaN."""


def levels(strip: LaneStrip) -> str:
    """Return a sign for each lane: its value's height between the least and the greatest.

    ``·`` is a lane that did not run the step, ``N`` a NaN.
    """
    if strip.values is None:
        return "".join(lane_cells(strip))
    numbers = [float(v[0] if isinstance(v, tuple) else v) for v in strip.values]
    finite = [v for v, on in zip(numbers, strip.active, strict=True) if on and math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    half = high / 2 - low / 2  # the whole may exceed a double
    out = []
    for value, on in zip(numbers, strip.active, strict=True):
        share = 0.5 if value == low == high else (value / 2 - low / 2) / half if half else value
        share = min(max(share, 0.0), 1.0)
        sign = NO_NUMBER if math.isnan(value) else LEVELS[min(int(share * 8), 7)]
        out.append(sign if on else IDLE)
    return "".join(out)


def lane_cells(strip: LaneStrip) -> list[str]:
    """A text a lane: its value, in brackets where it did not run the step."""
    if strip.values is None:
        return [ACTIVE if on else IDLE for on in strip.active]
    return [
        number(value, strip.kind) if on else f"[{number(value, strip.kind)}]"
        for value, on in zip(strip.values, strip.active, strict=True)
    ]


def lanes_per_row(size: int, width: int) -> int:
    """Return the number of lanes in a row: a warp, or a fraction of one."""
    per = WARP
    while per > 1 and per * size > width:
        per //= 2
    return per


def strip_head(strip: LaneStrip) -> str:
    """``%r86 (numerator) f32: 24 of 32 lanes ran this step``."""
    ran = sum(strip.active)
    head = "lanes" if strip.register is None else shown(strip.register)
    name = f" ({shown(strip.name)})" if strip.name else ""
    kind = f" {strip.kind}" if strip.kind else ""
    return f"{head}{name}{kind}: {ran} of {plural(len(strip.active), 'lane')} ran this step"


def _strip(strip: LaneStrip, width: int) -> Iterator[Text]:
    """Lanes in rows of as many as fit, a power of two; those that did not run it in brackets."""
    yield Text(f"  {strip_head(strip)}", "bold")
    if strip.register is not None and strip.values is None:
        yield Text("  not written yet")
        return
    cells = lane_cells(strip)
    size = max(map(len, cells), default=1)
    gap = " " if strip.values is not None else ""
    per = lanes_per_row(size + len(gap), width - 8)
    for first_lane in range(0, len(cells), per):
        row = gap.join(cell.rjust(size) for cell in cells[first_lane : first_lane + per])
        yield Text.assemble((f"{strip.first + first_lane:>6}  ", "dim"), row)


def _listing(lines: Sequence[ListedLine], width: int) -> Iterator[Text]:
    numbers = max(len(str(line.n)) for line in lines)
    texts = ["" if line.result is None else result_text(line.result) for line in lines]
    size = max(map(len, texts))
    for line, value in zip(lines, texts, strict=True):
        mark = ">" if line.current else " "
        head = f"{mark} {line.n:>{numbers}}  {value:>{size}}  "
        text = cut(statement(line.text), max(8, width - len(head)))
        yield Text.assemble((head, "green"), text, style="bold" if line.current else "")


def document(answer: StepAnswer) -> dict[str, object]:
    place = answer.place
    names = ("step", "steps", "line", "statement", "source", "lane", "runs")
    return {
        "schema": jsons.SCHEMA,
        **jsons.pick_fields(answer, "command understood note"),
        **{name: jsons.to_builtins(getattr(place, name, None)) for name in names},
        "active": None if place is None else {"warp": place.warp_lanes, "block": place.block_lanes},
        "changed": [] if place is None else [_value_json(v) for v in place.values],
        "values": [_value_json(v) for v in answer.values],
        "lanes": [
            jsons.pick_fields(s, "register name first values active") | {"type": s.kind or None}
            for s in answer.strips
        ],
        "lines": [_line_json(line) for line in answer.listing],
    }


def _line_json(line: ListedLine) -> dict[str, object]:
    """A line with its first register, or the value that it stored."""
    result, stored = line.result, getattr(line.result, "stored", False)
    first = _value_json(result.values[0]) if result is not None and result.values else None
    return {
        **jsons.pick_fields(line, "n text"),
        "value": None if stored else first,
        "stored": first if stored else None,
        **{name: getattr(result, name, None) for name in ("step", "runs")},
    }


def _value_json(value: LaneValue) -> dict[str, object]:
    inside = value.address_in
    return {
        "register": value.register or None,
        "name": value.name,
        "type": value.kind,
        "value": jsons.to_builtins(value.value),
        "line": value.line,
        "address_in": None if inside is None else {"name": inside[0], "offset": inside[1]},
    }
