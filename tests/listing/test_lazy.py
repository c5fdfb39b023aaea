"""Opening a listing is splitting it; what is looked at is parsed, and nothing else."""

from __future__ import annotations

import threading

import pytest

from inspector.listing import line as lazy
from inspector.listing.line import Kind, Lazy, LazyLines, Line
from inspector.listing.ptx import parse_ptx

TEXT = "\n".join(f"\t.loc 1 {i % 50 + 1} 0\n\tadd.s32 %r{i}, %r1, {i};" for i in range(5000))


class Counting:
    """A scanner that says what it was asked for."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.parsed: list[tuple[int, int]] = []
        self.skimmed: list[tuple[int, int]] = []

    def start(self) -> int:
        return 0

    def skim(self, first: int, last: int, state: int) -> int:
        self.skimmed.append((first, last))
        return last

    def parse(self, first: int, last: int, state: int) -> tuple[list[Line], int]:
        assert state == first, "the state is that of the lines before"
        self.parsed.append((first, last))
        return [Line(i + 1, self.texts[i], Kind.UNKNOWN) for i in range(first, last)], last


def test_only_what_is_shown_is_parsed() -> None:
    texts = [str(i) for i in range(100)]
    scanner = Counting(texts)
    lines = LazyLines(texts, scanner, chunk=10)
    assert len(lines) == 100
    assert (scanner.parsed, scanner.skimmed) == ([], [])
    assert lines[35].text == "35"
    assert scanner.parsed == [(30, 40)]
    assert scanner.skimmed == [(0, 10), (10, 20), (20, 30)]
    assert [line.text for line in lines[38:41]] == ["38", "39", "40"]
    assert scanner.parsed == [(30, 40), (40, 50)]
    assert len(scanner.skimmed) == 3, "parsing a chunk tells the state after it"
    assert lines[-1].n == 100
    assert [line.n for line in lines[::50]] == [1, 51]
    with pytest.raises(IndexError):
        lines[100]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "KEPT", 5)
    monkeypatch.setattr(lazy, "KEPT_OF_LONG", 3)
    texts = [str(i) for i in range(100)]
    scanner = Counting(texts)
    lines = LazyLines(texts, scanner, chunk=10)
    assert [line.text for line in lines] == texts
    assert len(lines._pages._pages) == 3
    assert lines[0].n == 1
    assert len(scanner.parsed) == 11


def test_any_order_of_a_large_listing() -> None:
    listing = parse_ptx(f'.entry k() {{\n{TEXT}\n}}\n.file 1 "a.cu"')
    last = listing.lines[10_000]
    assert last.opcode == "add.s32"
    assert last.source is not None
    assert (last.source.file, last.source.line) == ("a.cu", 50)
    assert listing.lines[2].source is not None
    assert listing.lines[2].source.line == 1
    assert [(f.first, f.last) for f in listing.functions] == [(1, 10_002)]


def test_several_readers() -> None:
    listing = parse_ptx(TEXT)
    expected = list(parse_ptx(TEXT).lines)
    wrong: list[int] = []

    def read(step: int) -> None:
        each = range(0, len(expected), step)
        wrong.extend(i for i in each if listing.lines[i] != expected[i])

    threads = [threading.Thread(target=read, args=(step,)) for step in (1, 3, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_equality_and_lazy_sequences() -> None:
    assert parse_ptx("ret;\n") == parse_ptx("ret;\n")
    assert parse_ptx("ret;\n") != parse_ptx("ret;")
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return [1, 2, 3]

    numbers = Lazy(make)
    assert made == []
    assert (len(numbers), numbers[1], list(numbers), numbers[1:]) == (3, 2, [1, 2, 3], [2, 3])
    assert made == [1]
    assert numbers == (1, 2, 3)
