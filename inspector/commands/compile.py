"""Compile files for several targets, with several sets of options, without a GPU.

A .cu, a .ptx, a .ttir, .ttgir or .llir, or a .py with Triton kernels goes through every stage that
follows. A .py is run, on an emulated device, for the calls that it makes itself, unless --signature
says how to compile its kernels. The result is a recording, which every other command reads;
a terminal opens it. Options after -- are the compiler's own. Exits with 1 where a file did not
compile for some target.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import re
import shlex
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from inspector.analyse.card import Card
from inspector.analyse.occupancy import occupancy
from inspector.base.errors import Exit, UsageError
from inspector.base.model import Compilation, Kernel, Stage, Variant
from inspector.base.names import base_name
from inspector.base.text import plural
from inspector.commands.common import option_words, print_json, reader_of, seconds, standard_input
from inspector.commands.open import browse, on_terminal
from inspector.listing.cubin import read_cubin
from inspector.reader.reader import Reader
from inspector.recording.layout import SUFFIX
from inspector.report import compiled as report
from inspector.report.compiled import CompiledCell, CompiledRow, CompiledTable
from inspector.sources import compiling
from inspector.sources.compilers import CompilerInput, check_options
from inspector.sources.compiling import (
    CompileOutcome,
    CompileRequest,
    GivenKernels,
    compile_files,
    settings,
    signature_of,
)
from inspector.system import printing
from inspector.system.printing import narrate

Key = tuple[str, str | None, str, str]
"""What a row is of: a file, a kernel, its configuration and signature."""
Cells = dict[Key, dict[tuple[str, str], CompiledCell]]
Heads = dict[Key, tuple[str, str | None, dict[str, object], str]]
LANGUAGES = ("cuda", "ptx", "ttir", "ttgir", "llir", "triton")
_TARGET = re.compile(r"(?:sm_|compute_)?(\d{2,3}[af]?)")
_LIBRARY = re.compile(r"(?:cublas|cusparse|cusolver)\w*\.h: No such file")
LIMIT_SECONDS = 600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``compile``."""
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="file to compile; - is standard input"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="ARCH[,ARCH]",
        help="architectures, a column each (default: the file's, else sm_90)",
    )
    parser.add_argument(
        "--options",
        action="append",
        default=[],
        metavar="'OPTIONS'",
        help="set of compiler options, a column each; repeatable; options after -- join every set",
    )
    parser.add_argument(
        "--language",
        choices=LANGUAGES,
        help="language of standard input, or of files with another ending",
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="write the recording to this folder or x.ptxview (default: your state folder)",
    )
    kernels = parser.add_argument_group("kernels of a .py, without running it for its calls")
    kernels.add_argument(
        "--signature",
        metavar="'x: *fp32:16, n: i32'",
        help="argument types of a kernel; :16 means divisible by 16; without --constexpr each "
        "configuration of a tuner is compiled",
    )
    kernels.add_argument(
        "--constexpr",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a constant; repeatable",
    )
    kernels.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help="compile this kernel alone; repeatable",
    )
    parser.add_argument("--python", metavar="PATH", help="interpreter that has Triton")
    parser.add_argument(
        "--limit",
        type=seconds,
        default=LIMIT_SECONDS,
        metavar="S",
        help=f"seconds that one compiler may take ({LIMIT_SECONDS:.0f})",
    )
    parser.add_argument(
        "--threads",
        type=_threads,
        metavar="N",
        help="threads of a block, for the occupancy of kernels without a block size",
    )
    parser.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="compare two columns, by target (sm_80 sm_90a) or number (1 2)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="recompile on every save of a file or its includes, and show the changes",
    )
    parser.add_argument("--no-tui", action="store_true", help="print the table on a terminal, too")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _threads(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads: 1 to 1024 are")
    return int(text)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Compile, and show the result."""
    at = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:at])
    common = argv[at + 1 :]
    if not args.files:
        parser.error("give a file, or - for standard input")
    with ended_like_ctrl_c():
        if args.watch:
            return _watch(args, common, argv)
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            request = request_of(args, common, Path(folder), argv)
            outcome = compile_files(request, lambda text: narrate(f"ptxview: {text}"))
    return finish(args, outcome)


@contextlib.contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Within it a request to end is an interruption: no compiler and no program is left running."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(args: argparse.Namespace, common: Sequence[str], argv: Sequence[str]) -> int:
    """Compile, and again on every save. Raises ``UsageError``."""
    from inspector.commands import compile_watch

    out = Path(args.out) if args.out else None
    if "-" in args.files:
        raise UsageError("--watch is of files: standard input is read once")
    if args.diff:
        raise UsageError("--diff and --watch: each save is compared with the one before it")
    if out is not None and (out.suffix != SUFFIX or out.is_dir()):
        raise UsageError("--watch writes one file on every save", "Give -o x.ptxview.")

    def make() -> CompileRequest:
        return replace(request_of(args, common, Path(), argv), out=None)

    def table(reader: Reader) -> CompiledTable:
        return table_of(reader, args.threads)

    compiles = compile_watch.Compiles(make, out, lambda text: narrate(f"ptxview: {text}"))
    if on_terminal() and not args.no_tui and not args.json:
        return compile_watch.watch_in_interface(compiles, table, browse)

    def show(outcome: CompileOutcome) -> None:
        made = table(reader_of(outcome.recording))
        if args.json:
            print_json(report.as_json(made))
        else:
            print_table(made, out or outcome.path)

    return compile_watch.watch_plainly(compiles, table, show, args.json)


def request_of(
    args: argparse.Namespace, common: Sequence[str], folder: Path, argv: Sequence[str]
) -> CompileRequest:
    """What the command line asks for; standard input is kept in ``folder``. Raises."""
    if args.files.count("-") > 1:
        raise UsageError("standard input can be read once: give one -")
    inputs = tuple(
        _standard_input(args.language, folder)
        if name == "-"
        else compiling.read_input(name, args.language)
        for name in dict.fromkeys(args.files)
    )
    sets = [(*option_words("--options", text), *common) for text in args.options] or [tuple(common)]
    for options in sets:
        for source in inputs:
            check_options(options, source.language)
            if source.language in compiling.BY_TRITON:
                settings(options)
    return CompileRequest(
        given=_given(args, inputs),
        inputs=inputs,
        targets=targets(args.target),
        options=tuple(dict.fromkeys(sets)),
        out=Path(args.out) if args.out else None,
        python=args.python,
        limit=args.limit,
        command=("ptxview", "compile", *argv),
    )


def _given(args: argparse.Namespace, inputs: Sequence[CompilerInput]) -> GivenKernels:
    """How kernels are to be compiled, where that was given. Raises ``UsageError``."""
    given = args.signature is not None or args.constexpr or args.kernel
    if given and not any(source.language == "triton" for source in inputs):
        raise UsageError("--signature, --constexpr and --kernel are of a .py with Triton kernels")
    if args.signature is None and (args.constexpr or args.kernel):
        raise UsageError(
            "--constexpr and --kernel go with a signature",
            "Give --signature 'x: *fp32:16, n: i32' as well, or none of them: the .py is then run "
            "for its own calls.",
        )
    return GivenKernels(
        tuple(args.kernel),
        None if args.signature is None else signature_of(args.signature),
        settings(args.constexpr, "--constexpr"),
    )


def targets(asked: Sequence[str]) -> tuple[str, ...]:
    """The targets as the tools call them. Raises ``UsageError`` for an invalid one."""
    out: dict[str, None] = {}
    for word in (w.strip() for text in asked for w in text.split(",")):
        match = _TARGET.fullmatch(word)
        if match is None:
            raise UsageError(
                f"{word or 'an empty word'} is not a target", "A target is written like sm_90."
            )
        out[f"sm_{match[1]}"] = None
    return tuple(out)


def _standard_input(asked: str | None, folder: Path) -> CompilerInput:
    language = compiling.language_of("-", asked)
    data = standard_input("Compile it from a file.")
    path = folder / f"stdin{compiling.ENDINGS[language]}"
    path.write_bytes(data)
    return compiling.checked(CompilerInput(path, "<stdin>", language, data))


# -- results -------------------------------------------------------------------------------------


def finish(args: argparse.Namespace, outcome: CompileOutcome) -> int:
    """Print the table, JSON or a diff, or open the interface; the exit status."""
    status = Exit.DIFFERENT if outcome.failed else Exit.OK
    reader = reader_of(outcome.recording)
    if args.diff:
        return _diff(args, outcome, reader) or status
    if args.json:
        print_json(report.as_json(table_of(reader, args.threads)))
        return status
    # Where nothing compiled there is nothing to browse, and the compilers' messages are printed.
    if on_terminal() and not args.no_tui and outcome.failed < len(outcome.recording.compilations):
        browse(lambda: (reader, None), outcome.path.name)
        narrate(f"ptxview: {outcome.path}")
        return status
    print_table(table_of(reader, args.threads), outcome.path)
    return status


def print_table(table: CompiledTable, path: Path) -> None:
    """The table with what the compilers said, and how to go on."""
    out = printing.out()
    for line in report.lines(table, out.width):
        out.print(line, soft_wrap=True)
    for line in report.messages(table):
        out.print(line, soft_wrap=True)
    said = [m.message for one in table.compilations for m in one.messages]
    if any(_LIBRARY.match(text) for text in said):
        narrate(
            "ptxview: headers of cuBLAS, cuSPARSE and cuSOLVER come with a CUDA toolkit, with CUDA "
            "builds of torch, and with pip install 'ptxview[cuda]'"
        )
    failed = sum(one.failed is not None for one in table.compilations)
    if failed:
        narrate(f"ptxview: {failed} of {plural(len(table.compilations), 'compilation')} failed")
    narrate(f"ptxview: {path}")
    pair = next((names for row in table.rows if len(names := _names(row)) > 1), None)
    if pair is not None:
        narrate(f"ptxview: compare two: ptxview diff {shlex.quote(str(path))} {pair[0]} {pair[1]}")


def _names(row: CompiledRow) -> list[str]:
    """What selects the variants of a row that differ."""
    return list(dict.fromkeys(shlex.quote(c.name) for c in row.cells if c is not None and c.name))


def table_of(reader: Reader, threads: int | None = None) -> CompiledTable:
    """The table of a recording that ``compile`` made; occupancy of blocks of ``threads`` threads
    where a kernel does not say how many."""
    tried = reader.recording.compilations
    columns = tuple(dict.fromkeys(one.column for one in tried))
    made: dict[tuple[str, str], tuple[Kernel, Variant]] = {}
    for kernel, variant in reader.recording.variants():
        made.setdefault((variant.hash, variant.symbol), (kernel, variant))
    list(reader.figures([variant for _, variant in made.values()]))
    rows: Cells = {}
    heads: Heads = {}
    for one in tried:
        for name in one.symbols or ((one.kernel,) if one.kernel else ()):
            found = made.get((one.hash or "", name))
            key: Key = (one.file, name, repr(sorted(one.config.items())), one.signature)
            title = _plain(found[0].demangled) if found else name
            heads.setdefault(key, (one.file, title, dict(one.config), one.signature))
            if found is not None or key not in rows:
                heads[key] = (one.file, title, dict(one.config), one.signature)
            rows.setdefault(key, {})[one.column] = _cell(reader, one, found, threads)
    for one in tried:
        _everywhere(one, rows, heads)
    return CompiledTable(
        reader.recording.path,
        columns,
        tuple(
            CompiledRow(*heads[key], tuple(cells.get(column) for column in columns))
            for key, cells in rows.items()
        ),
        tried,
    )


def _everywhere(one: Compilation, rows: Cells, heads: Heads) -> None:
    """A file that did not compile has an error in the rows of all of its kernels; else its own."""
    if one.symbols or one.kernel is not None:
        return
    own = [key for key in rows if key[0] == one.file]
    if not own:
        key: Key = (one.file, None, "", "")
        heads[key] = (one.file, None, {}, "")
        rows[key] = {}
        own = [key]
    for key in own:
        rows[key].setdefault(one.column, CompiledCell(one))


def _cell(
    reader: Reader, one: Compilation, found: tuple[Kernel, Variant] | None, threads: int | None
) -> CompiledCell:
    if found is None or one.failed is not None:
        return CompiledCell(one)
    kernel, variant = found
    card = reader.card(variant)
    made = card.of(Stage.SASS)
    return CompiledCell(
        one,
        variant,
        selector(reader, kernel, variant),
        reader.resources(variant),
        made.mix.total if made is not None and made.mix is not None else None,
        _occupancy(card, threads),
        _code(variant),
    )


def _occupancy(card: Card, threads: int | None) -> float | None:
    """In percent; of blocks of ``threads`` threads without dynamic shared memory, where only that
    is not known."""
    full = card.occupancy
    if full is None and threads is not None and card.device is not None:
        own = card.static_shared_bytes
        shared = None if own is None else own + (card.dynamic_shared_bytes or 0)
        taken = card.resources
        full = occupancy(
            card.device, card.threads or threads, taken.registers, shared, barriers=taken.barriers
        )
    return None if full is None else full.percent


def _code(variant: Variant) -> str | None:
    """A digest of a kernel's machine code; or None."""
    file = variant.stages.get(Stage.SASS)
    cubin = None if file is None else read_cubin(file.content.read())
    own = None if cubin is None else cubin.code.get(variant.symbol)
    return None if own is None else hashlib.sha256(own).hexdigest()


def selector(reader: Reader, kernel: Kernel, variant: Variant) -> str:
    """What names one variant on the command line: its id, or its number where others share that."""
    variants = reader.recording.variants()
    if sum(v.hash == variant.hash for _, v in variants) == 1:
        return variant.id
    return f"{base_name(kernel.name)}#{kernel.variants.index(variant) + 1}"


def _plain(name: str) -> str:
    return name.removeprefix("void ")


def _diff(args: argparse.Namespace, outcome: CompileOutcome, reader: Reader) -> int:
    """Each kernel of two columns, as ``ptxview diff`` compares them."""
    from inspector.commands import diff

    table = table_of(reader)
    a, b = (_column(table, word) for word in args.diff)
    status = 0
    for row in table.rows:
        left, right = row.cells[a], row.cells[b]
        if left is None or right is None or not left.name or not right.name:
            narrate(f"ptxview: {row.kernel or row.file}: it was not compiled in both columns")
            continue
        parser = argparse.ArgumentParser(prog="ptxview diff")
        diff.arguments(parser)
        words = [str(outcome.path), left.name, right.name, *(["--json"] if args.json else [])]
        status = max(status, diff.run(parser, words))
    return status


def _column(table: CompiledTable, word: str) -> int:
    """The column that a word names. Raises ``UsageError``."""
    if word.isascii() and word.isdecimal() and 0 < int(word[:9]) <= len(table.columns):
        return int(word) - 1
    names = [report.label(column, table.columns) for column in table.columns]
    fits = [at for at, column in enumerate(table.columns) if word in (names[at], *column)]
    if len(fits) == 1:
        return fits[0]
    listed = "; ".join(f"{n} {name}" for n, name in enumerate(names, 1))
    how = "fits several columns" if fits else "is not a column"
    raise UsageError(f"{word} {how}", f"Name one by its number: {listed}")
