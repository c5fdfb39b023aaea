"""Compile files for several targets, with several sets of options, without a GPU.

A .cu, a .ptx, a .ttir, .ttgir or .llir, or a .py with Triton kernels goes through every stage that
follows. A .py is run, on an emulated device, for the calls that it makes itself, unless --signature
says how to compile its kernels. The result is a recording, which every other command reads;
a terminal opens it. Options after -- are the compiler's own. Exits with 1 where a file did not
compile for some target.
"""

import argparse
import re
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.text import Text

from inspector.base.errors import Exit, PtxviewError, Stopped, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Compilation, Kernel, Stage, Variant
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import JSON, OUT, flag, option, say, several, takes, takes_compiler
from inspector.commands.open import browse, on_terminal
from inspector.diff import compare
from inspector.measure.experiment import ExperimentColumn, column
from inspector.reader.reader import Reader
from inspector.recording.layout import SUFFIX, pack, read_events, remove
from inspector.render import compiled as report
from inspector.render.compiled import CompiledRow, CompiledTable
from inspector.sources import compiling
from inspector.sources.compilers import CompilerInput, check_options
from inspector.sources.compiling import (
    CompileOutcome,
    CompileRequest,
    KernelOptions,
    compile_files,
    settings,
    signature_of,
    with_before,
)
from inspector.system import printing

Key = tuple[str, str | None, str, str]
"""What a row is of: a file, a kernel, its configuration and signature."""
LANGUAGES = ("cuda", "ptx", "ttir", "ttgir", "llir", "triton")
_TARGET = re.compile(r"(?:sm_|compute_)?(\d{2,3}[af]?)")
_LIBRARY = re.compile(r"(?:cublas|cusparse|cusolver)\w*\.h: No such file")
LOOK_SECONDS = 0.25
"""Between two looks at the files."""
SETTLED_SECONDS = 0.1
"""In which a file that has changed must not change again: an editor writes in pieces."""
MAX_ROWS = 40
"""Rows of one difference that are printed."""
GONE = (0, -1, 0)
"""The stamp of a file that is between two names, as editors have it."""
Stamps = dict[Path, tuple[int, int, int]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``compile``."""
    signature = "argument types of a kernel; :16 means divisible by 16; without --constexpr each "
    signature += "configuration of a tuner is compiled"
    takes(
        parser,
        {
            "files": option("FILE", "file to compile; - is standard input", nargs="*"),
            "--target": several("ARCH[,ARCH]", "architectures (default: the file's, or sm_90)"),
            "--options": several("'OPTIONS'", "set of compiler options, a column; repeatable"),
            "--language": option(
                None, "of standard input, or files of another ending", choices=LANGUAGES
            ),
            "-o --out": OUT,
            "--threads": option("N", "threads of a block, for the occupancy", type=_threads),
            "--diff": option(("A", "B"), "compare two columns, by target or number", nargs=2),
            "--watch": flag("recompile on every save of a file or include, and show the changes"),
            "--no-tui": flag("print the table on a terminal, too"),
            "--json": JSON,
        },
    )
    takes_compiler(parser)
    takes(
        parser.add_argument_group("kernels of a .py, without running it for its calls"),
        {
            "--signature": option("'x: *fp32:16, n: i32'", signature),
            "--constexpr": several("NAME=VALUE", "value of a constant; repeatable"),
            "--kernel": several("NAME", "compile this kernel alone; repeatable"),
        },
    )


def _threads(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is not a number of threads: 1 to 1024 are")
    return int(text)


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Compile, and show the result."""
    separator_index = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:separator_index])
    own_options = argv[separator_index + 1 :]
    if not args.files:
        parser.error("give a file, or - for standard input")
    with common.ended_like_ctrl_c():
        if args.watch:
            return _watch(args, own_options, argv)
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            outcome = compile_files(request_of(args, own_options, Path(folder), argv), say)
    return finish(args, outcome)


def request_of(
    args: argparse.Namespace, own_options: Sequence[str], folder: Path, argv: Sequence[str]
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
    sets = [(*common.option_words("--options", text), *own_options) for text in args.options] or [
        tuple(own_options)
    ]
    for options in sets:
        for source in inputs:
            check_options(options, source.language)
            if source.language in compiling.BY_TRITON:
                settings(options)
    return CompileRequest(
        kernel_options=_kernel_options(args, inputs),
        inputs=inputs,
        targets=targets(args.target),
        options=tuple(dict.fromkeys(sets)),
        out=Path(args.out) if args.out else None,
        python=args.python,
        limit=args.limit,
        command=("ptxview", "compile", *argv),
    )


def _kernel_options(args: argparse.Namespace, inputs: Sequence[CompilerInput]) -> KernelOptions:
    """How kernels are to be compiled, where that was given. Raises ``UsageError``."""
    has_options = args.signature is not None or args.constexpr or args.kernel
    if has_options and not any(source.language == "triton" for source in inputs):
        raise UsageError("--signature, --constexpr and --kernel are of a .py with Triton kernels")
    if args.signature is None and (args.constexpr or args.kernel):
        raise UsageError(
            "--constexpr and --kernel go with a signature",
            "Give --signature 'x: *fp32:16, n: i32' as well, or none of them: the .py is then run "
            "for its own calls.",
        )
    return KernelOptions(
        tuple(args.kernel),
        None if args.signature is None else signature_of(args.signature),
        settings(args.constexpr, "--constexpr"),
    )


def targets(texts: Sequence[str]) -> tuple[str, ...]:
    """The targets as the tools call them. Raises ``UsageError`` for an invalid one."""
    names: dict[str, None] = {}
    for text in texts:
        for word in map(str.strip, text.split(",")):
            match = _TARGET.fullmatch(word)
            if match is None:
                wrong = word or "an empty word"
                raise UsageError(f"{wrong} is not a target", "A target is written like sm_90.")
            names[f"sm_{match[1]}"] = None
    return tuple(names)


def _standard_input(language_option: str | None, folder: Path) -> CompilerInput:
    language = compiling.language_of("-", language_option)
    data = common.standard_input("Compile it from a file.")
    path = folder / f"stdin{compiling.ENDINGS[language]}"
    path.write_bytes(data)
    return compiling.checked(CompilerInput(path, "<stdin>", language, data))


def finish(args: argparse.Namespace, outcome: CompileOutcome) -> int:
    """Print the table, JSON or a diff, or open the interface; the exit status."""
    status = Exit.DIFFERENT if outcome.failed else Exit.OK
    reader = common.reader_of(outcome.recording)
    if args.diff:
        return _diff(args, outcome, reader) or status
    if args.json:
        common.print_json(report.as_json(table_of(reader, args.threads)))
        return status
    # Where nothing compiled there is nothing to browse, and the compilers' messages are printed.
    if on_terminal() and not args.no_tui and outcome.failed < len(outcome.recording.compilations):
        browse(lambda: (reader, None), outcome.path.name)
        say(f"{outcome.path}")
        return status
    print_table(table_of(reader, args.threads), outcome.path)
    return status


def print_table(table: CompiledTable, path: Path) -> None:
    """The table with what the compilers said, and how to go on."""
    printing.rows(report.lines(table, printing.out().width))
    printing.rows(report.messages(table.compilations))
    texts = [m.message for compilation in table.compilations for m in compilation.messages]
    if any(_LIBRARY.match(text) for text in texts):
        say(
            "headers of cuBLAS, cuSPARSE and cuSOLVER come with a CUDA toolkit, with CUDA builds "
            "of torch, and with pip install 'ptxview[cuda]'"
        )
    failed = sum(compilation.failed is not None for compilation in table.compilations)
    if failed:
        say(f"{failed} of {plural(len(table.compilations), 'compilation')} failed")
    say(f"{path}")
    for row in table.rows:
        names = list(dict.fromkeys(c.label for c in row.cells if c is not None and c.label))
        if len(names) > 1:
            two = shlex.join((str(path), *names[:2]))
            say(f"compare two: ptxview diff {two}")
            break


def table_of(reader: Reader, threads: int | None = None) -> CompiledTable:
    """The table of a recording that ``compile`` made; occupancy of blocks of ``threads`` threads
    where a kernel does not say how many."""
    tried = reader.recording.compilations
    columns = tuple(dict.fromkeys(compilation.column for compilation in tried))
    variants: dict[tuple[str, str], tuple[Kernel, Variant]] = {}
    for kernel, variant in reader.recording.variants():
        variants.setdefault((variant.hash, variant.symbol), (kernel, variant))
    list(reader.facts.read_resources([variant for _, variant in variants.values()]))
    rows: dict[Key, dict[tuple[str, str], ExperimentColumn]] = {}
    heads: dict[Key, tuple[str, str | None, dict[str, object], str]] = {}
    for compilation in tried:
        for name in _kernel_names(compilation):
            pair = variants.get((compilation.hash or "", name))
            settings = repr(sorted(compilation.config.items()))
            key: Key = (compilation.file, name, settings, compilation.signature)
            if pair is not None or key not in rows:
                title = pair[0].demangled.removeprefix("void ") if pair else name
                config = dict(compilation.config)
                heads[key] = (compilation.file, title, config, compilation.signature)
            cell = ExperimentColumn("", compilation, None)
            if pair is not None and compilation.failed is None:
                name = common.handle(reader.recording, *pair)
                cell = column(reader, name, compilation, pair[1], threads)
            rows.setdefault(key, {})[compilation.column] = cell
    for compilation in tried:
        if _kernel_names(compilation):
            continue
        # A file that did not compile has an error in the rows of all of its kernels; else its own.
        keys = [key for key in rows if key[0] == compilation.file]
        for key in keys or [(compilation.file, None, "", "")]:
            heads.setdefault(key, (compilation.file, None, {}, ""))
            cells = rows.setdefault(key, {})
            cells.setdefault(compilation.column, ExperimentColumn("", compilation, None))
    table_rows = (
        CompiledRow(*heads[key], tuple(map(cells.get, columns))) for key, cells in rows.items()
    )
    return CompiledTable(reader.recording.path, columns, tuple(table_rows), tried)


def _kernel_names(compilation: Compilation) -> Sequence[str]:
    """The kernels of a compilation: those of its machine code, else the one asked for."""
    if compilation.symbols:
        return compilation.symbols
    return () if compilation.kernel is None else (compilation.kernel,)


def _diff(args: argparse.Namespace, outcome: CompileOutcome, reader: Reader) -> int:
    """Each kernel of two columns, as ``ptxview diff`` compares them."""
    from inspector.commands import diff

    table = table_of(reader)
    a_word, b_word = args.diff
    a = _column(table, a_word)
    b = _column(table, b_word)
    status = 0
    for row in table.rows:
        a_cell = row.cells[a]
        b_cell = row.cells[b]
        if a_cell is None or b_cell is None or not a_cell.label or not b_cell.label:
            say(f"{row.kernel or row.file}: it was not compiled in both columns")
            continue
        parser = argparse.ArgumentParser(prog="ptxview diff")
        diff.arguments(parser)
        words = [str(outcome.path), a_cell.label, b_cell.label]
        if args.json:
            words.append("--json")
        status = max(status, diff.run(parser, words))
    return status


def _column(table: CompiledTable, word: str) -> int:
    """The column that a word names. Raises ``UsageError``."""
    if word.isascii() and word.isdecimal() and 0 < int(word[:9]) <= len(table.columns):
        return int(word) - 1
    names = [report.label(column, table.columns) for column in table.columns]
    fits = [index for index, column in enumerate(table.columns) if word in (names[index], *column)]
    if len(fits) == 1:
        return fits[0]
    listed = "; ".join(f"{n} {name}" for n, name in enumerate(names, 1))
    how = "fits several columns" if fits else "is not a column"
    raise UsageError(f"{word} {how}", f"Name one by its number: {listed}")


def _watch(args: argparse.Namespace, own_options: Sequence[str], argv: Sequence[str]) -> int:
    """Compile, and again on every save. Raises ``UsageError``."""
    out = Path(args.out) if args.out else None
    if "-" in args.files:
        raise UsageError("--watch is of files: standard input is read once")
    if args.diff:
        raise UsageError("--diff and --watch: each save is compared with the one before it")
    if out is not None and (out.suffix != SUFFIX or out.is_dir()):
        raise UsageError("--watch writes one file on every save", "Give -o x.ptxview.")

    def make() -> CompileRequest:
        return replace(request_of(args, own_options, Path(), argv), out=None)

    compiles = Compiles(make, out)
    in_interface = on_terminal() and not args.no_tui and not args.json
    try:
        return (_watch_in_interface if in_interface else _watch_plainly)(compiles, args)
    finally:
        say(f"{compiles.close()}")


def stamps(paths: Iterable[Path]) -> Stamps:
    """Stat fields that change when a file is written or replaced."""
    out: Stamps = {}
    for path in paths:
        try:
            status = path.stat()
            out[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            out[path] = GONE
    return out


class Compiles:
    """The files, their last compilation, and the one before it of which anything compiled."""

    def __init__(self, make: Callable[[], CompileRequest], out: Path | None) -> None:
        """Compile for the first time. Raises what ``compile_files`` raises."""
        self._make = make
        self._out = out
        self.before: CompileOutcome | None = None
        request = make()
        self._given = [source.path for source in request.inputs]
        self._stamps = stamps(self._given)
        self.outcome = compile_files(request, say)
        self._compiled()

    def saves(
        self, stop: threading.Event, begin: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[str, CompileOutcome | Exception]]:
        """Compile on each save, until ``stop``: the time, and the result or what kept it."""
        while not stop.wait(LOOK_SECONDS):
            now = stamps(self._stamps)
            if now == self._stamps or any(now.get(path) == GONE for path in self._given):
                continue
            time.sleep(SETTLED_SECONDS)
            if stamps(now) != now:  # a file is not whole again
                continue
            self._stamps = now
            begin()
            clock = time.strftime("%H:%M:%S")
            try:
                outcome = compile_files(self._make(), lambda text: None, lambda: not stop.is_set())
                self._replace(outcome)
            except Stopped:
                return
            except (PtxviewError, OSError) as error:
                yield clock, error
                continue
            yield clock, outcome

    def _replace(self, outcome: CompileOutcome) -> None:
        # Where nothing compiled there is nothing to compare with: what did before that stays.
        replaced: CompileOutcome | None = self.outcome
        some = self.outcome.failed < len(self.outcome.recording.compilations)
        if some or self.before is None:
            replaced, self.before = self.before, self.outcome
        self.outcome = outcome
        if replaced is not None:
            remove(replaced.path)
        self._compiled()

    def close(self) -> Path:
        """Keep the last recording alone; where it is."""
        if self.before is not None:
            remove(self.before.path)
        if self._out is None:
            return self.outcome.path
        remove(self.outcome.path)
        return self._out

    def _compiled(self) -> None:
        """Look at what was read, includes too, from now on; what was saved since has changed."""
        read = dict.fromkeys(self._given)
        for event in read_events(self.outcome.path).events:
            listed = event.get("read")
            if isinstance(listed, list):
                read |= {Path(str(name)): None for name in listed}
        self._stamps = stamps(read) | {p: s for p, s in self._stamps.items() if p in read}
        if self._out is not None:
            pack(self.outcome.path, self._out)


def _watch_plainly(compiles: Compiles, args: argparse.Namespace) -> int:
    """Print the result of each save until Ctrl-C."""

    def show(outcome: CompileOutcome) -> None:
        table = table_of(common.reader_of(outcome.recording), args.threads)
        if args.json:
            common.print_json(report.as_json(table))
        else:
            print_table(table, Path(args.out) if args.out else outcome.path)
        printing.flush()

    show(compiles.outcome)
    say("waiting for a change of the files (Ctrl-C ends)")
    for clock, result in compiles.saves(threading.Event()):
        if isinstance(result, Exception):
            say(f"{clock} {result}")
        elif args.json:
            show(result)
        else:
            _print_changes(compiles, clock, args.threads)
            printing.flush()
    return Exit.OK


def _print_changes(compiles: Compiles, clock: str, threads: int | None) -> None:
    assert compiles.before is not None
    old_reader = common.reader_of(compiles.before.recording)
    new_reader = common.reader_of(compiles.outcome.recording)
    changes = list(report.changes(table_of(old_reader, threads), table_of(new_reader, threads)))
    tried = compiles.outcome.recording.compilations
    failed = compiles.outcome.failed
    sentence = f"{failed} of {plural(len(tried), 'compilation')} failed"
    if not failed:
        took = sum(compilation.seconds or 0.0 for compilation in tried)
        file_count = len({compilation.file for compilation in tried})
        sentence = f"{plural(file_count, 'file')} compiled in {took:.2f} s"
        if not changes:
            sentence += ": the same machine code"
    head = Text(f"{clock}  {sentence}", "bold")
    printing.rows([head, *report.change_lines(changes), *report.messages(tried)])
    shown_symbols: set[str] = set()
    for title, a_cell, b_cell in changes:
        a = a_cell.variant if a_cell else None
        b = b_cell.variant if b_cell else None
        if a is not None and b is not None and a.symbol not in shown_symbols:
            shown_symbols.add(a.symbol)
            _print_change((old_reader, new_reader), (a, b), title)


def _print_change(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], title: str
) -> None:
    """Print the PTX and SASS of a kernel before and after, where these differ."""
    a, b = pair
    for stage in (Stage.PTX, Stage.SASS):
        if stage in a.stages and stage in b.stages:
            compared = compare.compare(readers, pair, stage)
            same = compared.diff.identical
            how = "the same but for names" if same else "before │ after"
            printing.rows([Text(f"  {stage.value} of {shown(title)}: {how}", "dim")])
            if not same:
                common.print_beside(compared, MAX_ROWS, "ptxview diff shows all")


def _watch_in_interface(compiles: Compiles, args: argparse.Namespace) -> int:
    """Open the interface, which stays where it is while files are recompiled."""
    # Imported here: only who sits at a terminal needs the interface.
    from inspector.tui.program.live import Live

    stop = threading.Event()
    fresh: list[Reader] = []
    first = common.reader_of(compiles.outcome.recording)
    live = Live(lambda: fresh.pop() if fresh else None)
    live.idle_text = "✗ compiled" if compiles.outcome.failed else "✓ compiled"

    def begin() -> None:
        live.idle_text = "◔ compiling"

    def follow() -> None:
        old_reader = first
        for clock, outcome in compiles.saves(stop, begin):
            if isinstance(outcome, Exception):
                live.idle_text = f"✗ {clock}"
                live.news.append((f"{clock}  not compiled", str(outcome), True))
                continue
            live.idle_text = f"✗ {clock}" if outcome.failed else f"✓ {clock}"
            if outcome.failed:
                live.news.append(_failure_news(clock, outcome))
            if outcome.failed == len(outcome.recording.compilations):
                continue  # what was compiled before stays in view
            new_reader = common.reader_of(outcome.recording)
            changes = report.changes(
                table_of(old_reader, args.threads), table_of(new_reader, args.threads)
            )
            change_text = "\n".join(line.plain for line in report.change_lines(changes))
            if change_text:
                news = f"{change_text}\nB shows the difference"
                live.news.append((f"{clock}  compiled", news, False))
            elif not outcome.failed:
                live.news.append((f"{clock}  compiled", "the machine code is the same", False))
            fresh[:] = [common.reader_of(with_before(outcome.recording, old_reader.recording))]
            old_reader = new_reader

    thread = threading.Thread(target=follow, daemon=True, name="compiling")
    thread.start()
    try:
        browse(lambda: (first, live), compiles.outcome.path.name, live)
    finally:
        stop.set()
        thread.join()
    return Exit.DIFFERENT if compiles.outcome.failed else Exit.OK


def _failure_news(clock: str, outcome: CompileOutcome) -> tuple[str, str, bool]:
    """The heading, the distinct reasons, and that it is a failure."""
    tried = outcome.recording.compilations
    reasons = dict.fromkeys(compilation.failed for compilation in tried if compilation.failed)
    head = f"{clock}  {plural(outcome.failed, 'compilation')} failed"
    return head, "\n".join(reasons), True
