"""A kernel as one text that somebody may read who can read only so much: a language model.

The most telling comes first: figures, hints, the source, then the code where hints, samples, the
peak of registers or innermost loops are; what is between is told in a line. How many tokens a text
is, nobody knows but the model's own tokenizer; ``tokens`` counts what no usual one exceeds on code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from inspector.model import Stage
from inspector.text import plural, shown

LEAST = 300
"""Tokens below which there is no room for anything."""
SOURCE_PART = 0.35
"""Of the tokens, those that the source may take."""
TOLD_PART = 0.3
"""Of the tokens, those that figures may take, and those that hints may."""
CODE_PART = 0.65
"""Of what is left for code, the part of the first stage, before the other is looked at."""
FOLD = 56
"""Tokens that are kept free for the line that tells of what is folded."""
ENDING = 160
"""Tokens that are kept free for what is said at the end."""
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[ \t]+(?=(.)|$)|.", re.DOTALL)


def tokens(text: str) -> int:
    """How many tokens a text is at most, as byte-pair tokenizers cut code.

    Two letters are one, four capitals three; each digit and each mark is one, so is each
    byte beyond ASCII, and so are four blanks, but for one that a word or a mark follows; a line's
    end is one. (Tokenizers have whole words and runs of marks as one, so that they come to less.)
    """
    return sum(_of_line(line) + 1 for line in text.split("\n"))


def _of_line(line: str) -> int:
    total = 0
    for match in _PIECES.finditer(line):
        piece, after = match[0], match[1]
        many = len(piece)
        if piece[0].isascii() and piece[0].isalpha():
            total += -(-3 * many // 4) if piece.isupper() else -(-many // 2)
        elif piece == " ":
            total += after is None or after.isdigit()
        elif piece[0] in " \t":
            total += -(-many // 4)
        else:
            total += 1 if piece.isascii() else len(piece.encode("utf-8", "surrogateescape"))
    return total


@dataclass(frozen=True, slots=True)
class PromptLine:
    """A line of code: ``says`` is False of what only a debugger needs, ``place`` is the line of the
    program that it is of (``square.py:12``), ``opcode`` what it is where it is an instruction."""

    n: int
    text: str
    opcode: str | None = None
    place: str | None = None
    says: bool = True


@dataclass(frozen=True, slots=True)
class PromptWindow:
    """Lines that are wanted before others, and why."""

    first: int
    last: int
    why: str


@dataclass(frozen=True, slots=True)
class PromptCode:
    """The kernel's own lines of a stage, those wanted first, and what single lines do."""

    stage: Stage
    language: str
    title: str
    lines: Sequence[PromptLine]
    windows: Sequence[PromptWindow] = ()
    sentences: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PromptKernel:
    """A kernel as it is told: lines of figures and of hints, its source, its code.

    ``more`` is the command that shows lines of a stage, in full and shorter, ``others`` are the
    stages that are not told.
    """

    title: str
    figures: Sequence[str]
    hints: Sequence[str]
    source: PromptCode | None
    code: Sequence[PromptCode]
    more: Sequence[str]
    others: Sequence[str] = ()


class _Room:
    """What is left of the tokens."""

    def __init__(self, most: int) -> None:
        self.left = most

    def takes(self, *lines: str) -> bool:
        """Whether these lines still fit; then they are taken."""
        cost = sum(tokens(line) for line in lines)
        if cost > self.left:
            return False
        self.left -= cost
        return True


def prompt(told: PromptKernel, most: int) -> str:
    """The text of a kernel, of at most ``most`` tokens as ``tokens`` counts; ``LEAST`` or more.

    What had to be left out is said at its end.
    """
    room = _Room(most - ENDING)
    out: list[str] = []
    left_out: list[str] = []
    _add(out, room, [_cut(f"# {told.title}", 60)])
    for name, lines in (("figure", told.figures), ("hint", told.hints)):
        part = _Room(min(int(TOLD_PART * most), room.left))
        before = part.left
        taken = _begun(lines, part)
        room.left -= before - part.left
        out += [*(["", f"## {name.capitalize()}s", ""] if taken else []), *taken]
        if missing := len(lines) - len(taken):
            left_out.append(f"{plural(missing, 'line')} of {name}s")
    if told.source is not None:
        part = _Room(min(int(SOURCE_PART * most), room.left))
        before = part.left
        text, missing = _source(told.source, part)
        room.left -= before - part.left
        out += text
        if missing:
            left_out.append(f"{plural(missing, 'line')} of the source")
    chosen = [_Chosen(code) for code in told.code]
    for code in chosen:
        code.begin(room)
    for n, code in enumerate(chosen):
        part = _Room(int(room.left * (CODE_PART if n + 1 < len(chosen) else 1)))
        before = part.left
        code.take_windows(part)
        room.left -= before - part.left
    for code in chosen:
        code.take_rest(room)
        out += code.text()
        if code.missing:
            left_out.append(f"{code.missing:,} of {plural(code.all, 'instruction')} of "
                            f"{code.code.stage.value}")  # fmt: skip
    left_out += [f"all of {stage}" for stage in told.others]
    out += ["", _ending(told.more, left_out)]
    return "\n".join(out) + "\n"


def _ending(more: Sequence[str], left_out: Sequence[str]) -> str:
    if not left_out:
        return "Nothing of the kernel is left out."
    said = f"Left out: {'; '.join(left_out)}."
    said_with = [f"{said} Lines of a stage: {each}" for each in more]
    return next((t for t in (*said_with, said) if tokens(t) < ENDING - 2), _cut(said, 60))


def _cut(text: str, most: int) -> str:
    """A line that is short enough: a name may be as long as a stranger likes."""
    while tokens(text) > most and len(text) > 1:
        text = text[: max(1, len(text) * 3 // 4)] + "…"
        text = text.replace("……", "…")
    return text


def _add(out: list[str], room: _Room, lines: Sequence[str]) -> None:
    if room.takes(*lines):
        out += lines


def _begun(lines: Sequence[str], room: _Room) -> list[str]:
    """As many of the first lines as fit, with their heading."""
    out: list[str] = []
    if not lines or not room.takes("", "## Figures", ""):
        return out
    for line in lines:
        if not room.takes(line):
            break
        out.append(line)
    return out


def _fence(lines: Iterable[str]) -> str:
    """What ends a block of these lines, and stands in none of them."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    return "`" * max(3, longest + 1)


FENCES = 30
"""Tokens that are kept free for what begins and ends a block."""


def _source(code: PromptCode, room: _Room) -> tuple[list[str], int]:
    """The source, as much of its beginning as fits; how many lines do not."""
    title = _cut(f"## {code.title}", 60)
    if not code.lines or room.left < FENCES + FOLD or not room.takes("", title, ""):
        return [], len(code.lines)
    room.left -= FENCES + FOLD
    rows: dict[int, str] = {}
    for line in sorted(code.lines, key=lambda line: not _wanted(code, line.n)):
        text = f"{line.n:>5} {shown(line.text)}".rstrip()
        if not room.takes(text):
            break
        rows[line.n] = text
    taken = [rows[n] for n in sorted(rows)]
    missing = len(code.lines) - len(taken)
    if missing:
        taken.append(f"… {plural(missing, 'line')} more")
    mark = _fence(taken)
    if 2 * len(mark) > FENCES - 10:
        return [], len(code.lines)
    return ["", title, "", f"{mark}{code.language}", *taken, mark], missing


def _wanted(code: PromptCode, n: int) -> bool:
    """Whether a line is wanted before others."""
    return any(window.first <= n <= window.last for window in code.windows)


class _Chosen:
    """Which lines of a stage are told, chosen one after the other while there is room."""

    def __init__(self, code: PromptCode) -> None:
        self.code = code
        self.at = {line.n: place for place, line in enumerate(code.lines)}
        self.rows: dict[int, str] = {}
        self.all = sum(line.opcode is not None for line in code.lines)
        self._begun = False
        self._places = dict(_places(code.lines))
        self._whys = dict(self._reasons())

    @property
    def missing(self) -> int:
        """How many instructions are not told."""
        return self.all - sum(self.code.lines[self.at[n]].opcode is not None for n in self.rows)

    def _reasons(self) -> Iterator[tuple[int, str]]:
        """Why lines are wanted, at the first of them that says something."""
        for window in reversed(self.code.windows):  # of two reasons the first stands
            for n in range(window.first, window.last + 1):
                if n in self.at and self.code.lines[self.at[n]].says:
                    yield n, window.why
                    break

    def begin(self, room: _Room) -> None:
        """Keeps room for the heading, and for what is folded before and behind all."""
        self._title = _cut(f"## {self.code.title}", 60)
        self._begun = bool(self.code.lines) and room.left >= 2 * (FENCES + 2 * FOLD)
        if self._begun and room.takes("", self._title, ""):
            room.left -= FENCES + 2 * FOLD

    def take_windows(self, room: _Room) -> None:
        """The lines that are wanted first, those of each reason in their order."""
        if not self._begun:
            return
        for window in self.code.windows:
            if room.left < 2 * FOLD:
                return
            room.left -= FOLD  # for what is folded between this and the next
            wanted = range(window.first, window.last + 1)
            self._take((n for n in wanted if n in self.at), room)

    def take_rest(self, room: _Room) -> None:
        """What else there is room for, from the beginning."""
        if self._begun:
            self._take(self.at, room)

    def _take(self, wanted: Iterable[int], room: _Room) -> None:
        for n in wanted:
            line = self.code.lines[self.at[n]]
            if n in self.rows or not line.says:
                continue
            row = self._row(line)
            if not room.takes(row):
                return
            self.rows[n] = row

    def _row(self, line: PromptLine) -> str:
        text = f"{line.n:>5} {shown(line.text).strip()}"
        if place := self._places.get(line.n):
            text += f"  // {shown(place)}"
        for said in (self._whys.get(line.n), self.code.sentences.get(line.n)):
            text += f"  ; {shown(said)}" if said else ""
        return text

    def text(self) -> Iterator[str]:
        """The stage: lines that are told, and in a line each what is folded between them."""
        if not self._begun or not self.rows:
            return
        out: list[str] = []
        for told, group in groupby(
            (line for line in self.code.lines if line.says), key=lambda line: line.n in self.rows
        ):
            lines = list(group)
            if told:
                out += [self.rows[line.n] for line in lines]
            elif folded := _folded(lines):
                out.append(folded)
        mark = _fence(out)
        if 2 * len(mark) > FENCES - 10:  # a stranger's line of marks alone
            out = [line.replace("`", "'") for line in out]
            mark = "```"
        yield from ("", self._title, "", f"{mark}{self.code.language}", *out, mark)


def _places(lines: Sequence[PromptLine]) -> Iterator[tuple[int, str]]:
    """Where a line is of another line of the program than the one before it."""
    last: str | None = None
    for line in lines:
        if line.opcode is not None and line.place is not None and line.place != last:
            last = line.place
            yield line.n, line.place


def _folded(lines: Sequence[PromptLine]) -> str | None:
    """What is between, in a line: how many instructions, and of which most."""
    many = Counter(shown(line.opcode).split(".")[0] for line in lines if line.opcode is not None)
    if not many:
        return None
    text = f"… lines {lines[0].n} to {lines[-1].n}: {plural(many.total(), 'instruction')}"
    most = ", ".join(f"{name} {count}" for name, count in many.most_common(3))
    whole = f"{text}: {most}"
    return next((each for each in (whole, text) if tokens(each) <= FOLD), "…")
