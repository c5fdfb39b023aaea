"""Two listings side by side: rows, folds, characters that differ; a pass's texts as such a pair."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from rapidfuzz.distance import LCSseq, Levenshtein

from inspector.analysis.passes import FX, LLVM, MACHINE, MLIR, PassRun
from inspector.base.model import Stage
from inspector.diff import matching
from inspector.diff.canonical import without_locations
from inspector.diff.listings import ListingDiff, diff_listings, likeness
from inspector.diff.matching import Hunk, Op
from inspector.parsers import parse
from inspector.parsers.line import Line, Listing

Spans = tuple[tuple[int, int], ...]
"""Half-open ranges of characters, in order, apart from one another."""

_TOKEN = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|0[xXfFdD][0-9A-Fa-f]++|\d++(?:\.\d++)?(?:[eE][-+]?\d++)?"
    r"|[%$#^.]?[A-Za-z_$][\w$]*+|[%#^!]\d++|\s++|.",
    re.DOTALL,
)
_ADDRESS = re.compile(r"\A\s*+/\*[0-9a-f]{4,16}\*/\s*+")
_LOCATION = re.compile(
    r"(?<!\s)\s*+loc\(#loc\d*+\)|(?:,|(?<!\s))\s*+!dbg !\d++|(?<!\s)\s*+//.*+\Z", re.DOTALL
)
_LONGEST = 4096
"""Tokens compared; of longer lines the rest is marked whole."""


def intra_line(a: str, b: str, names: Mapping[str, str] | None = None) -> tuple[Spans, Spans]:
    """The characters of two lines that differ: of the first, and of the second.

    ``names`` are those of the first by what they are called in the second: a name that is merely
    called something else does not differ. Neither do addresses, locations, comments and blanks.
    """
    a_tokens = _tokens(a)
    b_tokens = _tokens(b)
    changed = _differing(a_tokens, b_tokens, names or {})
    if names and changed == ([], []):
        # Only names differ, but the lines were not matched.
        changed = _differing(a_tokens, b_tokens, {})
    return _joined(changed[0], a), _joined(changed[1], b)


Token = tuple[int, str]
"""Where it begins in its line, and what it is."""


def _differing(
    a_tokens: list[Token], b_tokens: list[Token], renamed: Mapping[str, str]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges of the tokens that differ, with names of the left as the right calls them."""
    # a name of the second that is another's counterpart is not what is spelled like it here
    foreign = {text: "\0" + text for text in renamed.values()}
    a_texts = [renamed.get(text, foreign.get(text, text)) for _, text in a_tokens]
    b_texts = [text for _, text in b_tokens]
    deleted, inserted = _changed(a_texts[:_LONGEST], b_texts[:_LONGEST])
    unlike = [a_tokens[i] for i in deleted] + a_tokens[_LONGEST:]
    other = [b_tokens[j] for j in inserted] + b_tokens[_LONGEST:]
    return [(column, column + len(x)) for column, x in unlike], [
        (column, column + len(x)) for column, x in other
    ]


def _changed(a_texts: list[str], b_texts: list[str]) -> tuple[list[int], list[int]]:
    """The tokens of two lines that differ, by place.

    Replaced in place where that marks no more than a longest common subsequence does: "3, 4" that
    became "5, 3" has two other operands, not one that moved.
    """
    candidates: list[tuple[list[int], list[int]]] = []
    for method in (Levenshtein, LCSseq):
        changed = [o for o in method.opcodes(a_texts, b_texts) if o.tag != "equal"]
        deleted = [n for o in changed for n in range(o.src_start, o.src_end)]
        inserted = [n for o in changed for n in range(o.dest_start, o.dest_end)]
        candidates.append((deleted, inserted))
    return min(candidates, key=lambda marks: len(marks[0]) + len(marks[1]))


def _tokens(text: str) -> list[Token]:
    skipped: set[int] = set()
    for match in (*_ADDRESS.finditer(text), *_LOCATION.finditer(text)):
        skipped.update(range(*match.span()))
    return [
        (match.start(), match[0])
        for match in _TOKEN.finditer(text)
        if match.start() not in skipped and not match[0].isspace()
    ]


def _joined(spans: list[tuple[int, int]], text: str) -> Spans:
    """Spans with nothing but blanks between them as one."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and not text[out[-1][1] : start].strip():
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return tuple(out)


_WORD = re.compile(r"[\w$.]+|[^\s\w]")
_LARGEST = 1 << 12  # pairs of lines of one replaced stretch that are compared with one another


class Sign(StrEnum):
    """The kind of a row; ``unlike`` are two lines that have nothing in common."""

    EQUAL = "equal"
    CHANGED = "changed"
    UNLIKE = "unlike"
    DELETED = "deleted"
    INSERTED = "inserted"
    MOVED_AWAY = "moved away"
    MOVED_HERE = "moved here"
    FOLD = "fold"


class BesideRow(Struct, frozen=True):
    """One row; line numbers from 1, None if a side has no line.

    ``other`` is a moved line's place on the other side; ``count`` how many equal rows a fold
    replaces, ``a`` and ``b`` the first lines of them.
    """

    sign: Sign
    a: int | None = None
    b: int | None = None
    other: int | None = None
    count: int = 0


Lines = frozenset[int]
_NONE: tuple[Lines, Lines] = (frozenset(), frozenset())


def rows_beside(
    stretches: Iterable[Hunk],
    lines: tuple[Sequence[Line], Sequence[Line]],
    silent: tuple[Lines, Lines] = _NONE,
) -> Iterator[BesideRow]:
    """Every line of the hunks, each once, in the order of its side.

    ``silent`` lines of each side (locations, comments, blanks) are shown as equal wherever they
    stand. So are two lines that read the same: only the definitions of their operands differ.
    """
    a_lines, b_lines = lines
    a_silent, b_silent = silent
    parted = [part for hunk in stretches for part in _parts(_loud(hunk), lines)]
    for op, a, b, partner in matching.rows(parted):
        if op is Op.MOVED:
            yield BesideRow(Sign.MOVED_HERE if a is None else Sign.MOVED_AWAY, a, b, partner)
        elif op is Op.EQUAL:
            yield BesideRow(Sign.EQUAL, a, b)
        elif b is None:
            yield BesideRow(Sign.EQUAL if a in a_silent else Sign.DELETED, a, None)
        elif a is None:
            yield BesideRow(Sign.EQUAL if b in b_silent else Sign.INSERTED, None, b)
        else:
            pair = (a_lines[a - 1], b_lines[b - 1])
            yield from _replaced(a, b, pair, (a in a_silent, b in b_silent))


def _replaced(
    a: int, b: int, pair: tuple[Line, Line], silent: tuple[bool, bool]
) -> Iterator[BesideRow]:
    """The row of two lines that differ; two rows if one of them is silent."""
    a_line, b_line = pair
    related = _related(a_line, b_line)
    if all(silent) and related:
        yield BesideRow(Sign.EQUAL, a, b)
    elif any(silent):
        yield BesideRow(Sign.EQUAL if silent[0] else Sign.DELETED, a, None)
        yield BesideRow(Sign.EQUAL if silent[1] else Sign.INSERTED, None, b)
    elif _without_addresses(a_line.text) == _without_addresses(b_line.text):
        yield BesideRow(Sign.EQUAL, a, b)
    else:
        yield BesideRow(Sign.CHANGED if related else Sign.UNLIKE, a, b)


def loud(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Return hunks with those that say nothing of the code as equal ones, neighbours joined."""
    out: list[Hunk] = []
    for hunk in map(_loud, hunks):
        last = out[-1] if out else Hunk(Op.EQUAL, (0, 0), (0, 0))
        if last.op is hunk.op is Op.EQUAL and (last.a[1], last.b[1]) == (hunk.a[0], hunk.b[0]):
            out[-1] = Hunk(Op.EQUAL, (last.a[0], hunk.a[1]), (last.b[0], hunk.b[1]))
        else:
            out.append(hunk)
    return out


def _loud(hunk: Hunk) -> Hunk:
    return replace(hunk, op=Op.EQUAL, quiet=False) if hunk.quiet else hunk


def _parts(hunk: Hunk, lines: tuple[Sequence[Line], Sequence[Line]]) -> Iterator[Hunk]:
    """A replaced stretch of unlike lengths as pairs of lines and the rest between them.

    The lines are paired in order so that they have the most in common in sum.
    """
    (x, x1) = hunk.a
    (y, y1) = hunk.b
    pair_count = (x1 - x) * (y1 - y)
    if hunk.op is not Op.REPLACE or x1 - x == y1 - y or not 0 < pair_count <= _LARGEST:
        yield hunk
        return
    a_lines = lines[0][x - 1 : x1 - 1]
    b_lines = lines[1][y - 1 : y1 - 1]
    scores = [[_likeness(a_line, b_line) for b_line in b_lines] for a_line in a_lines]
    best = [[0.0] * (len(b_lines) + 1) for _ in range(len(a_lines) + 1)]
    for i in range(len(a_lines) - 1, -1, -1):
        for j in range(len(b_lines) - 1, -1, -1):
            paired = best[i + 1][j + 1] + scores[i][j] if scores[i][j] else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], paired)
    i = j = i0 = j0 = 0
    while i < len(a_lines) and j < len(b_lines):
        if scores[i][j] and best[i][j] == best[i + 1][j + 1] + scores[i][j]:
            yield from _apart(x + i0, x + i, y + j0, y + j)
            yield Hunk(Op.REPLACE, (x + i, x + i + 1), (y + j, y + j + 1))
            i, j = i + 1, j + 1
            i0 = i
            j0 = j
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    yield from _apart(x + i0, x1, y + j0, y1)


def _apart(x: int, x1: int, y: int, y1: int) -> Iterator[Hunk]:
    if x < x1 or y < y1:
        op = Op.REPLACE
        if x >= x1:
            op = Op.INSERT
        elif y >= y1:
            op = Op.DELETE
        yield Hunk(op, (x, x1), (y, y1))


def _likeness(x: Line, y: Line) -> float:
    """The share of their words that two lines have in common, 0 where that is less than half."""
    if not _related(x, y):
        return 0.0
    share = likeness(Counter(_WORD.findall(x.text)), Counter(_WORD.findall(y.text)))
    return share if share >= 0.5 else 0.0


def _without_addresses(text: str) -> str:
    return _LOCATION.sub("", _ADDRESS.sub("", text)).rstrip()


def _related(x: Line, y: Line) -> bool:
    if x.kind is not y.kind:
        return False
    if x.base is not None or y.base is not None:
        return x.base == y.base
    return not set(_WORD.findall(x.text)).isdisjoint(_WORD.findall(y.text))


class SideBySide(Struct, frozen=True):
    """Two compared listings: their rows, and the characters that differ in two lines."""

    listings: tuple[Listing, Listing]
    diff: ListingDiff

    def rows(self) -> Iterator[BesideRow]:
        """Yield the compared lines, side by side, without equal ``.loc`` lines of PTX."""
        lines = self.listings[0].lines, self.listings[1].lines
        for row in rows_beside(self.diff.hunks, lines, self.diff.silent):
            if row.sign is not Sign.EQUAL or not self._is_location(row):
                yield row

    def _is_location(self, row: BesideRow) -> bool:
        """Whether a row has nothing but the place of the next instruction in the source."""
        numbered = zip(self.listings, (row.a, row.b), strict=True)
        lines = [listing.lines[n - 1] for listing, n in numbered if n is not None]
        return all(line.text.lstrip().startswith(".loc") for line in lines)

    def intra(self, a: int, b: int) -> tuple[Spans, Spans]:
        """Return the characters of two lines, by number, that differ."""
        x = self.listings[0].lines[a - 1]
        y = self.listings[1].lines[b - 1]
        return intra_line(x.text, y.text, self.diff.names_at(a, b))


def folded(rows: Iterable[BesideRow], context: int) -> Iterator[BesideRow]:
    """Rows with stretches of equal ones folded but for ``context`` rows next to a change.

    A fold replaces at least two rows.
    """
    stretch: list[BesideRow] = []
    begun = False
    for row in rows:
        if row.sign is Sign.EQUAL:
            stretch.append(row)
            continue
        yield from _fold(stretch, context if begun else 0, context)
        stretch = []
        begun = True
        yield row
    yield from _fold(stretch, context if begun else 0, 0)


def _fold(stretch: list[BesideRow], head_count: int, tail_count: int) -> Iterator[BesideRow]:
    hidden = len(stretch) - head_count - tail_count
    if hidden < 2:
        yield from stretch
        return
    yield from stretch[:head_count]
    middle = stretch[head_count : head_count + hidden]
    a = next((row.a for row in middle if row.a is not None), None)
    b = next((row.b for row in middle if row.b is not None), None)
    yield BesideRow(Sign.FOLD, a, b, None, hidden)
    yield from stretch[len(stretch) - tail_count :]


# Machine code has no parser: its lines are compared as they are.
_AS = {MLIR: Stage.TTGIR, LLVM: Stage.LLIR, MACHINE: Stage.LLIR, FX: Stage.POST_GRAD}


class PassChange(SideBySide, frozen=True):
    run: PassRun

    @property
    def stage(self) -> Stage:
        return _AS[self.run.language]


_MLIR_LOCATION = re.compile(r"^#loc\d* = .*\n?", re.MULTILINE)
_LLVM_LOCATION = re.compile(
    r", !dbg !\d+|^!\d+ = (?:distinct )?!DI(?:Location|Subprogram|LexicalBlock)\(.*\n?",
    re.MULTILINE,
)
_MACHINE_LOCATION = re.compile(r",? debug-location .*$", re.MULTILINE)


def change_of(run: PassRun, without_locations: bool = True) -> PassChange:
    """What a pass changed; of one that changed nothing, nothing.

    ``without_locations``: texts without locations, unless these are all that changed.
    """
    texts = run.before or "", run.after or ""
    if without_locations:
        shown = _unlocated(texts[0], run.language), _unlocated(texts[1], run.language)
        texts = texts if shown[0] == shown[1] else shown
    listings = _listing(texts[0], run.language), _listing(texts[1], run.language)
    return PassChange(listings, diff_listings(*listings, exact=run.language == MACHINE), run)


# What one pass leaves the next one finds: a list of passes has each text read once.
@lru_cache(maxsize=2)
def _listing(text: str, language: str) -> Listing:
    return parse(_AS[language], text)


def _unlocated(text: str, language: str) -> str:
    if language == FX:
        return text  # locations are on lines of their own
    if language == MLIR:
        rows = _MLIR_LOCATION.sub("", text).split("\n")
        return "\n".join(without_locations(row).rstrip() if "loc(" in row else row for row in rows)
    return (_LLVM_LOCATION if language == LLVM else _MACHINE_LOCATION).sub("", text)


def lines_changed(run: PassRun) -> tuple[int, int]:
    """How many lines came and how many went: a line that became another did both."""
    signs = Counter(row.sign for row in change_of(run).rows())
    both = signs[Sign.CHANGED] + signs[Sign.UNLIKE]
    return both + signs[Sign.INSERTED], both + signs[Sign.DELETED]
