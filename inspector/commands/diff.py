"""What differs: two variants of a kernel, all variants of one, or two recordings.

A and B are each a KERNEL of the newest recording, PATH::KERNEL, or a PATH. Two PATHs of many
kernels are compared kernel by kernel; one KERNEL alone, or --variants, gives the table of its
variants. Names of registers, labels and digests, .loc and comments do not count: what is only
renumbered is identical.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from inspector.base.errors import Exit, UsageError
from inspector.base.model import KERNEL_STAGES, Origin, Stage
from inspector.base.names import base_name
from inspector.base.text import shown
from inspector.commands import small
from inspector.commands.common import open_reader, print_json
from inspector.diff import beside, compare, variants
from inspector.diff.beside import BesideRow
from inspector.diff.compare import Compared, Files
from inspector.diff.explanation import changed_versions
from inspector.diff.recordings import Fate
from inspector.listing.line import Function
from inspector.reader.reader import Reader
from inspector.reader.selecting import Selection, names, place, select, select_one
from inspector.report import brief, diff_json, diff_markdown, diff_text
from inspector.sources.opening import is_there
from inspector.system import printing

STAGES = tuple(s.value for s in KERNEL_STAGES)
CONTEXT = 3


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``diff``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="A B",
        help="what to compare: KERNEL, PATH::KERNEL or PATH; or PATH A B with both kernels in PATH",
    )
    parser.add_argument(
        "--stage", choices=STAGES, help="default: ptx, else the lowest that both have"
    )
    parser.add_argument(
        "--exact", action="store_true", help="compare the text: names, numbers and comments count"
    )
    parser.add_argument(
        "--variants", action="store_true", help="the table of all variants that one KERNEL fits"
    )
    parser.add_argument(
        "--sort",
        metavar="KEY",
        help="order of that table: time, registers, spills, shared, occupancy, instructions, "
        "winner or a name in the configuration; -KEY the other way round (--sort=-time)",
    )
    parser.add_argument(
        "--context", type=_count, default=CONTEXT, metavar="N", help="equal lines round a change"
    )
    parser.add_argument("--width", type=_count, metavar="N", help="columns of the output")
    parser.add_argument(
        "--device",
        metavar="ARCH",
        help="architecture for occupancy and hints (sm_80); default: the variant's own",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if anything differs")
    parser.add_argument(
        "--summary", action="store_true", help="the figures alone, without the text of the stages"
    )
    small.takes_small(parser, "the differences", lines="these lines of two variants (40:80)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown for a pull request")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 on")
    return int(text)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print what differs."""
    args = parser.parse_args(argv)
    small.refuse_together(args, "brief", "lines", "summary", "markdown")
    return _print(args, _answer(args, _places(parser, args)))


def _answer(args: argparse.Namespace, given: list[Selection]) -> Answer:
    readers: dict[str | None, Reader] = {}
    for one in given:
        if one.path not in readers:
            readers[one.path] = open_reader(one.path, args.device)
        if _is_table(given, readers[one.path]):
            given = [Selection(one.path, given[1].selector)]
            break
    if len(given) == 1:
        return _table(readers[given[0].path], given[0].selector, args)
    a, b = (readers[one.path] for one in given)
    many = [len(r.recording.variants()) for r in (a, b)]
    if any(one.selector is not None for one in given) or many == [1, 1]:
        return _variants((a, b), given, args)
    if args.lines is not None:
        raise UsageError(
            "--lines is of two variants, and these are two of many",
            "Name one on each side: PATH::KERNEL.",
        )
    files = all(_single_file(r) for r in (a, b)) and min(many) > 0
    return _files(a, b, args) if files else _recordings(a, b, args)


def _places(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Selection]:
    """What is to be compared: one thing for a table, two for a diff."""
    words: list[str] = args.words
    if len(words) > 3 or (args.variants and len(words) > 2):
        parser.error("give at most PATH, A and B")
    given = [place(word, lambda path: is_there(Path(path))) for word in words]
    if len(words) == 3:
        if given[0].path is None or given[0].selector is not None:
            raise UsageError(f"{words[0]} does not exist", "Of three words, the first is a PATH.")
        return [Selection(words[0], word) for word in words[1:]]
    if args.variants and len(words) == 2:
        return [Selection(words[0], words[1])]
    if not words and not args.variants:
        parser.error("give two things to compare, or one KERNEL for the table of its variants")
    return given or [Selection(None, None)]


def _is_table(given: list[Selection], first: Reader) -> bool:
    """Whether two words are PATH KERNEL, as in ``show``: the path holds more than a kernel."""
    if len(given) != 2 or given[0].path is None or given[1].path is not None:
        return False
    return given[0].selector is None and len(first.recording.variants()) > 1


def _single_file(reader: Reader) -> bool:
    """Whether what was opened is one file of PTX, SASS or the like."""
    kernels = reader.recording.kernels
    paths = {v.hash for _, v in reader.recording.variants()}
    return len(paths) == 1 and all(k.origin is Origin.FILE for k in kernels)


# -- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """One comparison in its four forms; each is made when it is printed."""

    identical: bool
    document: Callable[[], dict[str, object]]
    summary: Callable[[], dict[str, object]]
    markdown: Callable[[], Iterable[str]]
    show: Callable[[Console, int], None]


def _print(args: argparse.Namespace, answer: Answer) -> int:
    if args.brief:
        small.answer(answer.summary(), args.json)
    elif args.json:
        print_json(answer.document())
    elif args.markdown:
        printing.lines(answer.markdown())
    else:
        out = printing.out()
        answer.show(out, args.width or out.width)
    return Exit.DIFFERENT if args.exit_code and not answer.identical else Exit.OK


def _variants(
    readers: tuple[Reader, Reader], given: list[Selection], args: argparse.Namespace
) -> Answer:
    """Two variants."""
    selected = [select_one(r.recording, p.selector) for r, p in zip(readers, given, strict=True)]
    whole = all(p.selector is None and _single_file(r) for p, r in zip(given, readers, strict=True))
    pair = (selected[0][1], selected[1][1])
    stage = compare.stage_of(*pair, Stage(args.stage) if args.stage else None)
    compared = compare.compare(readers, pair, stage, exact=args.exact, whole=whole)
    paths = (readers[0].recording.path, readers[1].recording.path)

    def document() -> dict[str, object]:
        value = diff_json.variants(compared, paths)
        if args.lines is not None:
            value["hunks"] = [h for h in diff_json.hunks(compared.diff) if _touches(h, args.lines)]
        return value

    def brief_value() -> dict[str, object]:
        a, b = (
            (path, small.handle(reader.recording, *one))
            for path, reader, one in zip(paths, readers, selected, strict=True)
        )
        return brief.compared(compared, a, b)

    def show(out: Console, width: int) -> None:
        if args.lines is not None:
            _text(out, compared, _between(compared, args.lines), width)
            return
        for mark, one, path in (("a", compared.a, paths[0]), ("b", compared.b, paths[1])):
            said = diff_text.title(mark, one)
            if paths[0] != paths[1]:
                said.append(f"  {shown(path)}", style="dim")
            out.print(said, soft_wrap=True)
        out.print()
        for line in diff_text.lines(compared.summary, compared.explanation, min(width, 100)):
            out.print(line, soft_wrap=True)
        if not args.summary:
            _text(out, compared, beside.folded(compared.rows(), args.context), width)

    return Answer(
        compared.diff.identical,
        document,
        brief_value,
        lambda: diff_markdown.variants(compared, beside.folded(compared.rows(), args.context)),
        show,
    )


def _touches(hunk: Mapping[str, object], lines: tuple[int, int]) -> bool:
    """Whether a hunk of JSON has one of these lines on a side."""
    sides = [hunk["a"], hunk["b"]]
    return any(isinstance(s, list) and s[0] <= lines[1] and s[1] > lines[0] for s in sides)


def _between(compared: Compared, lines: tuple[int, int]) -> list[BesideRow]:
    """The rows that have one of these lines on a side. Raises ``UsageError`` if none has."""
    first, last = lines
    rows = [
        row
        for row in compared.rows()
        if any(n is not None and first <= n <= last for n in (row.a, row.b))
    ]
    if not rows:
        spans = []
        sides = zip("ab", compared.functions, compared.listings, strict=True)
        for mark, function, listing in sides:
            one = function or Function("", 1, len(listing.lines))
            spans.append(f"{mark} has {one.first} to {one.last}")
        stage = compared.stage.value
        raise UsageError(f"none of these lines of {stage} was compared: {' and '.join(spans)}")
    return rows


def _text(out: Console, compared: Compared | Files, rows: Iterable[BesideRow], width: int) -> None:
    if compared.diff.identical:
        out.print(f"{compared.stage.value}: identical")
        return
    out.print(Text(f"{compared.stage.value}:  {diff_text.LEGEND}", style="dim"), soft_wrap=True)
    lines = (compared.listings[0].lines, compared.listings[1].lines)
    colour = out.color_system is not None and not out.no_color
    for text in diff_text.beside(rows, lines, compared.intra, width, colour):
        out.print(text, soft_wrap=True)


def _print_paths(out: Console, paths: tuple[str, str]) -> None:
    for mark, path in zip("ab", paths, strict=True):
        out.print(Text.assemble((f"{mark} ", "bold cyan"), shown(path)), soft_wrap=True)


def _files(a: Reader, b: Reader, args: argparse.Namespace) -> Answer:
    """Two files of several kernels."""
    compared = compare.compare_files(a, b, Stage(args.stage) if args.stage else None, args.exact)
    paths = (a.recording.path, b.recording.path)

    def show(out: Console, width: int) -> None:
        _print_paths(out, paths)
        for both, became in diff_text.functions(compared.diff.functions, compared.figures):
            name = (shown(" → ".join(both)), "bold")
            out.print(Text.assemble("  ", name, f": {became}"), soft_wrap=True)
        if not args.summary:
            _text(out, compared, beside.folded(compared.rows(), args.context), width)

    rows = beside.folded(compared.rows(), args.context)
    return Answer(
        compared.diff.identical,
        lambda: diff_json.files(compared, paths),
        lambda: brief.many_compared(diff_json.files(compared, paths), "functions", *paths),
        lambda: diff_markdown.files(compared, paths, rows),
        show,
    )


def _table(reader: Reader, selector: str | None, args: argparse.Namespace) -> Answer:
    """All variants of a kernel."""
    chosen = select(reader.recording, selector)
    failed = [
        k
        for k in reader.recording.kernels
        if k.autotune and not k.variants and (selector is None or selector in names(k))
    ]
    if not chosen and not failed:
        select_one(reader.recording, selector)  # raises with the reason
    if len(chosen) == 1 and not args.variants and not chosen[0][0].autotune:
        raise UsageError(
            f"{selector or reader.recording.path} fits one variant: there is nothing to compare",
            "Name a second: ptxview diff A B",
        )
    stage = Stage(args.stage) if args.stage else Stage.PTX
    rows = list(compare.variant_rows(reader, chosen, stage, failed))
    if args.sort:
        key = args.sort.removeprefix("-")
        columns = variants.keys(rows)
        if key not in columns:
            raise UsageError(f"nothing is called {key} here", f"Sort by {', '.join(columns)}.")
        rows = variants.ordered(rows, key, args.sort.startswith("-"))
    by_kernel: dict[str, list[variants.VariantRow]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel.id, []).append(row)

    def markdown() -> Iterator[str]:
        for own in by_kernel.values():
            yield f"### {diff_markdown.code(base_name(own[0].kernel.name))}"
            yield ""
            yield from diff_markdown.table(own)

    def show(out: Console, width: int) -> None:
        for own in by_kernel.values():
            out.print(Text(shown(base_name(own[0].kernel.name)), "bold cyan"), soft_wrap=True)
            out.print(diff_text.variants(own, width, stage))

    return Answer(
        True,
        lambda: diff_json.table(rows),
        lambda: brief.tabled(diff_json.table(rows), reader.recording.path),
        markdown,
        show,
    )


def _recordings(a: Reader, b: Reader, args: argparse.Namespace) -> Answer:
    """Two recordings."""
    stage = Stage(args.stage) if args.stage else None
    pairs = [
        (one.pair.a, one.pair.b, one.state, one.resources)
        for one in compare.compare_recordings(a, b, stage, args.exact)
    ]
    versions = changed_versions(a.recording.tools, b.recording.tools)
    same = all(state is Fate.SAME for _, _, state, _ in pairs)
    paths = (a.recording.path, b.recording.path)

    def show(out: Console, width: int) -> None:
        _print_paths(out, paths)
        if versions:
            out.print(shown(f"versions: {diff_text.versions_said(versions)}"), soft_wrap=True)
        out.print(diff_text.counts(pairs))
        if not same:
            out.print(diff_text.recordings(pairs, width))

    return Answer(
        same,
        lambda: diff_json.recordings(paths, pairs, versions),
        lambda: brief.many_compared(diff_json.recordings(paths, pairs), "pairs", *paths),
        lambda: diff_markdown.recordings(paths, pairs, versions),
        show,
    )
