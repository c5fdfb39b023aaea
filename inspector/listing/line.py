"""The one line record of every language, and the listing that holds them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from threading import RLock
from typing import Generic, NamedTuple, Protocol, TypeVar, overload

from inspector.model import Location

# -- sequences that are computed on first use -----------------------------------------------------
# Opening a listing only splits its text; lines and functions are parsed on first use.

T = TypeVar("T")
State = TypeVar("State")

CHUNK = 1024
"""Lines parsed at once."""

KEPT = 128
"""Parsed chunks kept: listings up to 131,072 lines are parsed once, about 60 MB of them."""

KEPT_OF_LONG = 32
"""Parsed chunks kept of longer listings, which are parsed again whenever they are gone through."""


class PagedTexts(Sequence[str]):
    """The lines of a long text, taken out of it when they are looked at: as strings of their own
    they take three times as much. Safe to read from several threads."""

    def __init__(self, text: str) -> None:
        self.text = text
        ends = islice(re.finditer("\n", text), CHUNK - 1, None, CHUNK)
        self._starts = [0, *(end.end() for end in ends)]
        self._size = (len(self._starts) - 1) * CHUNK + text.count("\n", self._starts[-1]) + 1
        self._recent: tuple[int, list[str]] = (-1, [])

    def _page(self, page: int) -> list[str]:
        recent, lines = self._recent
        if recent != page:
            start = self._starts[page]
            end = self._starts[page + 1] - 1 if page + 1 < len(self._starts) else len(self.text)
            lines = self.text[start:end].split("\n")
            self._recent = page, lines
        return lines

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            wanted = range(self._size)[index]
            if wanted.step != 1:
                return [self[i] for i in wanted]
            return list(self._stretch(wanted.start, wanted.stop))
        page, offset = divmod(range(self._size)[index], CHUNK)
        return self._page(page)[offset]

    def __iter__(self) -> Iterator[str]:
        return self._stretch(0, self._size)

    def _stretch(self, start: int, stop: int) -> Iterator[str]:
        while start < stop:
            page, offset = divmod(start, CHUNK)
            end = min(stop, (page + 1) * CHUNK)
            yield from islice(self._page(page), offset, offset + end - start)
            start = end


def split_lines(text: str) -> Sequence[str]:
    """The lines of a text, without their newlines."""
    if text.count("\n") < KEPT * CHUNK:
        return text.split("\n")
    return PagedTexts(text)


class Scanner(Protocol[State]):
    """One language's parser, a stretch of lines at a time.

    ``State`` is what the parser must know of earlier lines (an open comment, the location). It must
    be immutable, as it is used again when a chunk is parsed again.
    """

    def start(self) -> State:
        """The state before the first line."""
        ...

    def skim(self, first: int, last: int, state: State) -> State:
        """The state after ``texts[first:last]``, without making their lines."""
        ...

    def parse(self, first: int, last: int, state: State) -> tuple[list[Line], State]:
        """The lines of ``texts[first:last]``, and the state after them."""
        ...


class LazyLines(Sequence["Line"]):
    """The lines of one text; parsed in chunks, the least recently used of which are dropped.

    ``texts`` are the lines' texts, which need no parsing. Safe to read from several threads.
    """

    def __init__(
        self, texts: Sequence[str], scanner: Scanner[State], chunk: int | None = CHUNK
    ) -> None:
        self.texts = texts
        self._pages: _Pages[State] = _Pages(texts, scanner, chunk or max(1, len(texts)))
        self._recent: tuple[int, list[Line]] = (-1, [])

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            indices = range(len(self.texts))[index]
            if indices.step == 1:
                return tuple(self.stretch(indices.start, indices.stop))
            return tuple(self[i] for i in indices)
        if index < 0:
            index += len(self.texts)
        if not 0 <= index < len(self.texts):
            raise IndexError("line index out of range")
        page, offset = divmod(index, self._pages.size)
        recent, lines = self._recent
        if recent != page:
            lines = self._pages.get(page)
            self._recent = page, lines
        return lines[offset]

    def __iter__(self) -> Iterator[Line]:
        return self.stretch(0, len(self.texts))

    def stretch(self, start: int, stop: int) -> Iterator[Line]:
        """``self[start:stop]``, one after the other."""
        size = self._pages.size
        while start < stop:
            page, offset = divmod(start, size)
            end = min(stop, (page + 1) * size)
            yield from islice(self._pages.get(page), offset, offset + end - start)
            start = end

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyLines):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self.texts), self.texts[:1] == [""]))

    def __repr__(self) -> str:
        return f"<{len(self)} lines>"


class _Pages(Generic[State]):
    """Parsed chunks by number, and the states between them."""

    def __init__(self, texts: Sequence[str], scanner: Scanner[State], size: int) -> None:
        self.size = size
        self._kept = KEPT if len(texts) <= KEPT * size else KEPT_OF_LONG
        self._total = len(texts)
        self._scanner = scanner
        self._states: list[State] = []
        self._pages: OrderedDict[int, list[Line]] = OrderedDict()
        self._lock = RLock()

    def get(self, page: int) -> list[Line]:
        with self._lock:
            lines = self._pages.get(page)
            if lines is None:
                first = page * self.size
                last = min(first + self.size, self._total)
                lines, state_after = self._scanner.parse(first, last, self._before(page))
                if len(self._states) == page + 1:
                    self._states.append(state_after)
                self._pages[page] = lines
                if len(self._pages) > self._kept:
                    self._pages.popitem(last=False)
            else:
                self._pages.move_to_end(page)
            return lines

    def _before(self, page: int) -> State:
        states = self._states
        if not states:
            states.append(self._scanner.start())
        while len(states) <= page:
            first = (len(states) - 1) * self.size
            states.append(self._scanner.skim(first, first + self.size, states[-1]))
        return states[page]


class Lazy(Sequence[T]):
    """A sequence computed as a whole on first use."""

    def __init__(self, make: Callable[[], Sequence[T]]) -> None:
        self._make: Callable[[], Sequence[T]] | None = make
        self._made: Sequence[T] = ()
        self._lock = RLock()

    def _all(self) -> Sequence[T]:
        if self._make is not None:
            with self._lock:
                if self._make is not None:
                    self._made = self._make()
                    self._make = None
        return self._made

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._all()[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Lazy | tuple):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._all()))

    def __repr__(self) -> str:
        return repr(tuple(self._all()))


class Kind(StrEnum):
    """What a line is. ``UNKNOWN`` lines are shown as they are."""

    INSTRUCTION = "instruction"
    LABEL = "label"
    DIRECTIVE = "directive"
    COMMENT = "comment"
    BLANK = "blank"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Control:
    """The scheduling half of a SASS encoding (sm_70 and later).

    ``stall`` in cycles; barriers are scoreboards 0 to 5 or None; ``wait`` and ``reuse`` are masks.
    Undocumented by the vendor: read from bits 105 to 125 of the 128-bit instruction word.
    """

    stall: int
    yield_: bool
    write_barrier: int | None
    read_barrier: int | None
    wait: int
    reuse: int


class Line(NamedTuple):
    """One line of one stage.

    ``n`` counts from 1. ``text`` is the line without its newline. ``base`` is ``ld`` where
    ``opcode`` is ``ld.global.v4.b32``. ``defs`` and ``uses`` are single registers or SSA values,
    predicates and the guard included, each once, in the order they are written. ``label`` is
    defined here, ``targets`` are branched to or called. ``address`` is the offset in the section
    (SASS); ``ptx_line`` nvdisasm's ``-gp``.

    A statement that spans several lines has its opcode, ``defs`` and ``uses`` on its first; the
    others are of the same kind with ``opcode`` None. A named tuple, because a frozen dataclass
    takes eight times as long to make.
    """

    n: int
    text: str
    kind: Kind
    base: str | None = None
    opcode: str | None = None
    defs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    source: Location | None = None
    label: str | None = None
    targets: tuple[str, ...] = ()
    address: int | None = None
    ptx_line: int | None = None
    control: Control | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a listing: lines ``first`` to ``last``, both counted in, from 1."""

    name: str
    first: int
    last: int
    entry: bool = True


@dataclass(frozen=True, slots=True)
class Listing:
    """A stage's text as lines. ``"\\n".join(line.text for line in lines)`` is the text again.

    In a parser's result, ``lines`` and ``functions`` are parsed on first use.
    """

    language: str
    lines: Sequence[Line]
    functions: Sequence[Function] = ()

    def between(self, first: int, last: int) -> Iterator[Line]:
        """Lines ``first`` to ``last``, both counted in, from 1.

        An iterator, so that a function of a million lines need not be in memory at once.
        """
        first = max(first, 1)
        if isinstance(self.lines, LazyLines):
            return self.lines.stretch(first - 1, min(last, len(self.lines)))
        return islice(self.lines, first - 1, max(last, 0))

    def texts(self, first: int, last: int) -> Iterator[str]:
        """The texts of the same lines: nothing is parsed for them."""
        first = max(first, 1)
        if not isinstance(self.lines, LazyLines):
            return (line.text for line in self.between(first, last))
        texts, end = self.lines.texts, min(last, len(self.lines))
        some = (texts[at : min(at + CHUNK, end)] for at in range(first - 1, end, CHUNK))
        return chain.from_iterable(some)

    @property
    def text(self) -> str:
        """The stage's text, byte for byte (with surrogate escapes where it was not UTF-8)."""
        if isinstance(self.lines, LazyLines):
            texts = self.lines.texts
            return texts.text if isinstance(texts, PagedTexts) else "\n".join(texts)
        return "\n".join(line.text for line in self.lines)
