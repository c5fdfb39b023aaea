"""What differs: two variants of a kernel, all variants of one, or two recordings.

A and B are each a KERNEL of the newest recording, PATH::KERNEL, or a PATH. Two PATHs of many
kernels are compared kernel by kernel; one KERNEL alone, or --variants, gives the table of its
variants. Names of registers, labels and digests, .loc and comments do not count: what is only
renumbered is identical.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from inspector.base.errors import Exit, UsageError
from inspector.base.escapes import shown
from inspector.base.model import KERNEL_STAGES, Kernel, Origin, Stage, Variant
from inspector.base.names import base_name
from inspector.commands import common
from inspector.commands.common import DEVICE, JSON, amount, flag, handle, option, takes, takes_small
from inspector.diff import beside, compare, variants
from inspector.diff.beside import BesideRow
from inspector.diff.compare import Compared, Files
from inspector.diff.recordings import ChangeKind
from inspector.diff.summary import changed_versions
from inspector.reader.query import Selection, names, place, select, select_one
from inspector.reader.reader import Reader
from inspector.render import brief, diff_rows, diff_text
from inspector.render.diff_rows import DiffDocument, HunkRow, VariantsDiff
from inspector.sources.opening import is_there
from inspector.system import printing

STAGES = tuple(s.value for s in KERNEL_STAGES)
CONTEXT = 3
Document = TypeVar("Document", bound=DiffDocument)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``diff``."""
    sort = "sort that table: time, registers, spills, shared, occupancy, instructions, winner, a "
    sort += "name in the configuration; -KEY the other way round (--sort=-time)"
    takes(
        parser,
        {
            "words": option("A B", "KERNEL, PATH::KERNEL or PATH; or PATH A B", nargs="*"),
            "--stage": option(None, "default: ptx, else the lowest that both have", choices=STAGES),
            "--exact": flag("compare the text: names, numbers and comments count"),
            "--variants": flag("the table of all variants that one KERNEL fits"),
            "--sort": option("KEY", sort),
            "--context": option("N", "equal lines round a change", type=amount, default=CONTEXT),
            "--width": option("N", "columns of the output", type=amount),
            "--device": DEVICE,
            "--exit-code": flag("exit with 1 if anything differs"),
            "--summary": flag("the figures alone, without the text of the stages"),
        },
    )
    takes_small(parser, "the differences", lines="these lines of two variants (40:80)")
    form = parser.add_mutually_exclusive_group()
    takes(form, {"--json": JSON, "--markdown": flag("print Markdown for a pull request")})


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print what differs."""
    args = parser.parse_args(argv)
    common.refuse_together(args, "brief", "lines", "summary", "markdown")
    places = _places(parser, args)
    readers: dict[str | None, Reader] = {}
    for selection in places:
        if selection.path not in readers:
            readers[selection.path] = common.open_reader(selection.path, args.device)
        if _is_path_and_kernel(places, readers):
            places = [Selection(places[0].path, places[1].selector)]
            break
    if len(places) == 1:
        return _table(readers[places[0].path], places[0].selector, args)
    a = readers[places[0].path]
    b = readers[places[1].path]
    counts = [len(reader.recording.variants()) for reader in (a, b)]
    if any(selection.selector is not None for selection in places) or counts == [1, 1]:
        return _variants((a, b), places, args)
    if args.lines is not None:
        raise UsageError(
            "--lines is of two variants, and these are two of many",
            "Name one on each side: PATH::KERNEL.",
        )
    if min(counts) > 0 and _single_file(a) and _single_file(b):
        return _files(a, b, args)
    return _recordings(a, b, args)


def _is_path_and_kernel(places: Sequence[Selection], readers: Mapping[str | None, Reader]) -> bool:
    """Whether two words are PATH KERNEL, as in show: the path holds more than a kernel."""
    if len(places) != 2:
        return False
    first, second = places
    if first.path is None or first.selector is not None or second.path is not None:
        return False
    return len(readers[first.path].recording.variants()) > 1


def _places(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[Selection]:
    """What is to be compared: one thing for a table, two for a diff."""
    words: list[str] = args.words
    if len(words) > 3 or (args.variants and len(words) > 2):
        parser.error("give at most PATH, A and B")
    places = [place(word, lambda path: is_there(Path(path))) for word in words]
    if len(words) == 3:
        if places[0].path is None or places[0].selector is not None:
            raise UsageError(f"{words[0]} does not exist", "Of three words, the first is a PATH.")
        return [Selection(words[0], word) for word in words[1:]]
    if args.variants and len(words) == 2:
        return [Selection(words[0], words[1])]
    if not words and not args.variants:
        parser.error("give two things to compare, or one KERNEL for the table of its variants")
    return places or [Selection(None, None)]


def _single_file(reader: Reader) -> bool:
    """Whether what was opened is one file of PTX, SASS or the like."""
    kernels = reader.recording.kernels
    paths = {v.hash for _, v in reader.recording.variants()}
    return len(paths) == 1 and all(k.origin is Origin.FILE for k in kernels)


def _print(
    args: argparse.Namespace,
    identical: bool,
    document: Callable[[], Document],
    summary: Callable[[Document], dict[str, Any]],
    markdown: Iterable[str],
    text: Callable[[int], Iterable[RenderableType]],
) -> int:
    """Print the form of a comparison that is asked for, the only one that is made.

    ``summary`` is made of the document that JSON prints. ``text`` takes the width.
    """
    out = printing.out()
    if args.brief:
        common.print_brief(summary(document()), args.json)
    elif args.json:
        common.print_json(document())
    elif args.markdown:
        printing.lines(markdown)
    else:
        for part in text(args.width or out.width):
            out.print(part, soft_wrap=isinstance(part, Text))
    return Exit.DIFFERENT if args.exit_code and not identical else Exit.OK


def _variants(
    readers: tuple[Reader, Reader], places: list[Selection], args: argparse.Namespace
) -> int:
    """Two variants."""
    a_pair = select_one(readers[0].recording, places[0].selector)
    b_pair = select_one(readers[1].recording, places[1].selector)
    pair = (a_pair[1], b_pair[1])
    whole_files = all(
        selection.selector is None and _single_file(reader)
        for selection, reader in zip(places, readers, strict=True)
    )
    stage = compare.stage_of(*pair, Stage(args.stage) if args.stage else None)
    compared = compare.compare(readers, pair, stage, exact=args.exact, whole_files=whole_files)
    paths = (readers[0].recording.path, readers[1].recording.path)

    def document() -> VariantsDiff:
        whole = diff_rows.variants_diff(compared, paths)
        if args.lines is None:
            return whole
        return replace(whole, hunks=[hunk for hunk in whole.hunks if _touches(hunk, args.lines)])

    def summed(document: VariantsDiff) -> dict[str, Any]:
        a_name = handle(readers[0].recording, *a_pair)
        b_name = handle(readers[1].recording, *b_pair)
        return brief.comparison_summary(compared, (paths[0], a_name), (paths[1], b_name))

    def text(width: int) -> Iterator[RenderableType]:
        if args.lines is not None:
            yield from _text(compared, _between(compared, args.lines), width)
            return
        yield from _sides(compared, paths)
        yield Text()
        yield from diff_text.lines(compared.summary, compared.explanation, min(width, 100))
        if not args.summary:
            yield from _text(compared, beside.folded(compared.rows(), args.context), width)

    markdown = diff_text.variants_markdown(compared, args.context)
    return _print(args, compared.diff.identical, document, summed, markdown, text)


def _touches(hunk: HunkRow, lines: tuple[int, int]) -> bool:
    """Whether a hunk has one of some lines on a side."""
    first, last = lines
    return any(span[0] <= last and span[1] > first for span in (hunk.a, hunk.b))


def _sides(compared: Compared, paths: tuple[str, str]) -> Iterator[Text]:
    """What a and b are, with their paths if these differ."""
    a = compared.a
    b = compared.b
    for mark, side, other, path in (("a", a, b, paths[0]), ("b", b, a, paths[1])):
        description = diff_text.side_text(side.kernel, side.variant, other.kernel, other.variant)
        text = Text.assemble((f"{mark} ", "bold cyan"), description)
        if paths[0] != paths[1]:
            text.append(f"  {shown(path)}", style="dim")
        yield text


def _between(compared: Compared, lines: tuple[int, int]) -> list[BesideRow]:
    """The rows that have one of these lines on a side. Raises ``UsageError`` if none has."""
    first, last = lines
    line_numbers = range(first, last + 1)
    rows = [row for row in compared.rows() if row.a in line_numbers or row.b in line_numbers]
    if not rows:
        spans = []
        for mark, function, listing in zip(
            "ab", compared.functions, compared.listings, strict=True
        ):
            span = (function.first, function.last) if function else (1, len(listing.lines))
            spans.append(f"{mark} has {span[0]} to {span[1]}")
        stage = compared.stage.value
        raise UsageError(f"none of these lines of {stage} was compared: {' and '.join(spans)}")
    return rows


def _text(compared: Compared | Files, rows: Iterable[BesideRow], width: int) -> Iterator[Text]:
    stage = compared.stage.value
    if compared.diff.identical:
        yield Text(f"{stage}: identical")
        return
    yield Text(f"{stage}:  {diff_text.LEGEND}", style="dim")
    yield from common.beside_texts(compared, rows, width)


def _marked(paths: tuple[str, str]) -> Iterator[Text]:
    for mark, path in zip("ab", paths, strict=True):
        yield Text.assemble((f"{mark} ", "bold cyan"), shown(path))


def _files(a: Reader, b: Reader, args: argparse.Namespace) -> int:
    """Two files of several kernels."""
    compared = compare.compare_files(a, b, Stage(args.stage) if args.stage else None, args.exact)
    paths = (a.recording.path, b.recording.path)

    def text(width: int) -> Iterator[RenderableType]:
        yield from _marked(paths)
        for both, became in diff_text.functions(compared.diff.functions, compared.figures):
            yield Text.assemble("  ", (shown(" → ".join(both)), "bold"), f": {became}")
        if not args.summary:
            yield from _text(compared, beside.folded(compared.rows(), args.context), width)

    return _print(
        args,
        compared.diff.identical,
        lambda: diff_rows.files_diff(compared, paths),
        brief.files_summary,
        diff_text.files_markdown(compared, paths, args.context),
        text,
    )


def _table(reader: Reader, selector: str | None, args: argparse.Namespace) -> int:
    """All variants of a kernel."""
    selected, failed = _tabulated(reader, selector, args.variants)
    stage = Stage(args.stage) if args.stage else Stage.PTX
    rows = list(compare.variant_rows(reader, selected, stage, failed))
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
        for kernel_rows in by_kernel.values():
            yield from (f"### {diff_text.code_span(base_name(kernel_rows[0].kernel.name))}", "")
            yield from diff_text.table_markdown(kernel_rows)

    def text(width: int) -> Iterator[RenderableType]:
        for kernel_rows in by_kernel.values():
            yield Text(shown(base_name(kernel_rows[0].kernel.name)), "bold cyan")
            yield diff_text.variants(kernel_rows, width, stage)

    return _print(
        args,
        True,
        lambda: diff_rows.variant_table(rows),
        lambda table: brief.variant_table(table, reader.recording.path),
        markdown(),
        text,
    )


def _tabulated(
    reader: Reader, selector: str | None, several_kernels: bool
) -> tuple[Sequence[tuple[Kernel, Variant]], list[Kernel]]:
    """The variants of a table, and kernels whose tuner left no variant. Raises if there are fewer
    than two, or of several kernels where these are not asked for."""
    selected = select(reader.recording, selector)
    failed = []
    for kernel in reader.recording.kernels:
        is_selected = selector is None or selector in names(kernel)
        if is_selected and kernel.autotune and not kernel.variants:
            failed.append(kernel)
    named = {kernel.id for kernel, _ in selected if selector in names(kernel)}
    nothing = not selected and not failed
    if nothing or (len(named) > 1 and not several_kernels):
        select_one(reader.recording, selector)  # raises with the reason, or the choices
    if len(selected) == 1 and not several_kernels and not selected[0][0].autotune:
        raise UsageError(
            f"{selector or reader.recording.path} fits one variant: there is nothing to compare",
            "Name a second: ptxview diff A B",
        )
    return selected, failed


def _recordings(a: Reader, b: Reader, args: argparse.Namespace) -> int:
    """Two recordings."""
    stage = Stage(args.stage) if args.stage else None
    pairs = compare.compare_recordings(a, b, stage, args.exact)
    versions = changed_versions(a.recording.tools, b.recording.tools)
    same = all(state is ChangeKind.SAME for _, _, state, _ in pairs)
    paths = (a.recording.path, b.recording.path)

    def text(width: int) -> Iterator[RenderableType]:
        yield from _marked(paths)
        if versions:
            yield Text(shown(f"versions: {diff_text.versions_text(versions)}"))
        yield Text(diff_text.counts_text(pairs))
        if not same:
            yield diff_text.recordings(pairs, width)

    return _print(
        args,
        same,
        lambda: diff_rows.recordings_diff(paths, pairs, versions),
        brief.recordings_summary,
        diff_text.recordings_markdown(paths, pairs, versions),
        text,
    )
