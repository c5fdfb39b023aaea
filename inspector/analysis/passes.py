"""Passes of MLIR's and LLVM's, of what the compilers print around each: what it changed, and when.

MLIR prints its IR before every pass (``// -----// IR Dump Before``): what a pass leaves is what the
next one finds, and after the last one of a pass manager stands the module itself. LLVM prints after
every pass (``*** IR Dump After``), its code generator machine code a function at a time. Marks
stand between them (``inspector/probes/cross_compile/remaining.py``). Times are MLIR's and LLVM's
own reports, where they make one.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

MLIR = "mlir"
LLVM = "llvm"
MACHINE = "machine"
FX = "fx"
BY_MLIR = "mlir"
BY_LLVM = "llvm"
BY_ARRIVAL = "arrival"


class PassRun(Struct, frozen=True):
    """One pass as it ran, from 1 in the order of the compiler.

    ``name`` is the pass's class or title, ``argument`` its name on the command line (``cse``),
    ``scope`` what it ran on where that is not the module; ``inside`` are the passes that it ran
    itself, as often as it did. ``stage`` is the stage that was being made; ``language`` is mlir,
    llvm, machine (LLVM's machine code), or fx: a graph of torch.fx. ``before`` and ``after`` are
    the texts where they differ, both None where it changed nothing; ``before`` is empty where the
    text that it made is the first of its language. ``milliseconds`` are those of ``timed_by``:
    MLIR's or LLVM's own timers, or ``arrival``, the time between two lines that LLVM prints; None
    where none said so. ``lines`` are those that came and that went, where the texts were compared;
    ``finished`` is False of the pass that the compiler failed in.
    """

    number: int
    stage: str
    language: str
    name: str
    argument: str = ""
    scope: str = ""
    inside: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    milliseconds: float | None = None
    timed_by: str | None = None
    lines: tuple[int, int] | None = None
    finished: bool = True

    @property
    def changed(self) -> bool:
        return self.after is not None

    @property
    def operations(self) -> Mapping[str, tuple[int, int]]:
        """Operations of which there are more or fewer after it: how many before and after."""
        if self.before is None or self.after is None:
            return {}
        a = operations(self.before, self.language)
        b = operations(self.after, self.language)
        return {name: (a[name], b[name]) for name in sorted(a | b) if a[name] != b[name]}


# -- what is printed ------------------------------------------------------------------------------

_HEADER = re.compile(
    rb"^(?:"
    rb"(?P<mark>ptxview-[0-9a-f]{32}) (?P<word>\w+) ?(?P<rest>.*)"
    rb"|// -----// IR Dump Before (?P<before>.+?) //----- //"
    rb"|// -----// (?P<other>.+ IR Dump .+)"
    rb"|(?:; )?\*\*\* IR Dump After (?P<after>.+?) \*\*\*(?P<on>.*)"
    rb"|# \*\*\* IR Dump After (?P<machine>.+?) \*\*\*:?.*"
    rb"|Running pass: (?P<running>.+)"
    rb"|(?P<noise>Running analysis|Clearing all|Invalidating|Skipping|===-{20}).*"
    rb")$",
    re.MULTILINE,
)
# `Name: argument{options} ('op' operation: @f)`; before LLVM 22 `Name (argument) ('op' operation)`.
_MLIR_NAME = re.compile(
    r"(?P<name>[^\s:(]+(?:\([^)]*\)::\S+)?)(?:: (?P<new>[\w.-]+)(?:\{.*\})?| \((?P<old>[\w.-]+)\))?"
    r" \('(?P<op>[\w.]+)' operation(?:: (?P<symbol>@.+))?\)(?P<failed> Failed)?"
)
_LLVM_ON = re.compile(r"(?P<name>.+?) on (?P<scope>.+)")
_TITLE = re.compile(r"(?P<name>.+?)(?: \((?P<argument>[\w.-]+)\))?")
_PIPELINE = re.compile(
    r"(?P<name>[\w.-]+)(?P<options>\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})?(?P<open>\()?"
    r"|(?P<close>\))"
)
# LLVM numbers the rows of machine code between some passes, and indents the others alike.
_SLOT = re.compile(rb"^(?:\d+B?)?\t", re.MULTILINE)
_MODULE = re.compile(rb"\s*(?:; ModuleID|source_filename|target )")
_FUNCTION = re.compile(rb"# Machine code for function ([^:\n]+)")


def _parts(printed: bytes, mark: bytes) -> Iterator[tuple[str, str, bytes, int]]:
    """What is printed, heading by heading: its kind and text, what follows it without blank lines,
    and the byte at which the name in the heading begins."""
    headings = [m for m in _HEADER.finditer(printed) if m["mark"] in (None, mark)]
    ends = [*(match.start() for match in headings[1:]), len(printed)]
    for match, end in zip(headings, ends, strict=False):
        kind = match.lastgroup or ""
        if match["mark"] is not None:
            kind = match["word"].decode()
            text = match["rest"]
            named = 0
        elif match["after"] is not None:
            kind = "after"
            text = match["after"] + match["on"]
            named = match.start("after")
        else:
            text = match[kind]
            named = match.start(kind)
        body = printed[match.end() : end].strip(b"\n").rstrip()
        yield kind, text.decode("utf-8", "replace"), body, named


class _Reader:
    def __init__(self, arrivals: Sequence[tuple[int, float]]) -> None:
        self.passes: list[PassRun] = []
        self._arrivals = arrivals
        self._stage = ""
        self._pipeline: list[tuple[str, str]] = []
        self._waiting: list[tuple[str, str, str, str, bytes]] = []
        self._latest: dict[str, bytes] = {}
        self._running: list[tuple[str, float | None]] = []

    def read(self, kind: str, text: str, body: bytes, position: int) -> None:
        match kind:
            case "stage":
                self._stage = text
            case "pipeline":
                self._pipeline = pipeline_of(text)
                self._waiting = []
            case "ended":
                self._mlir(body)
            case "module":
                self._latest = {"": body}
                self._running = []
            case "over":  # a pass manager begins some that print nothing when they end
                self._running = []
            case "translate":  # Triton inlines and verifies, untold, before the first pass
                self._latest = {}
                self._running = []
            case "before":
                match = _MLIR_NAME.fullmatch(text)
                if match is not None and not match["failed"]:
                    argument = match["new"] or match["old"] or ""
                    symbol = match["symbol"] or ""
                    self._waiting.append((match["name"], argument, match["op"], symbol, body))
            case "running":
                self._running.append((_name_on(text)[0], self._arrived(position)))
            case "after":
                self._after(text, body, position)
            case "machine":
                self._machine(text, body)

    def end(self) -> None:
        """What was begun and did not end: the last pass is the one that the compiler failed in."""
        if self._waiting:
            self._mlir(None)
        elif self._running:
            name, scope = _name_on(self._running[-1][0])
            self._add(LLVM, name, "", scope)

    def _mlir(self, final: bytes | None) -> None:
        """The passes of one pass manager, whose last text is the module that it left."""
        ran = [(w[1], w[2]) for w in self._waiting]
        pipeline = self._pipeline
        if final is None:  # the first of its passes are known, and not the last
            begun = 0
            for run in ran:
                begun += begun < len(pipeline) and _is(run, pipeline[begun])
            pipeline = pipeline[:begun]
        tops = [i for i, top in enumerate(_own_passes(ran, pipeline)) if top]
        for i, j in zip(tops, [*tops[1:], len(self._waiting)], strict=True):
            name, argument, _, symbol, old_text = self._waiting[i]
            new_text = self._waiting[j][4] if j < len(self._waiting) else final
            inside = tuple(w[0] for w in self._waiting[i + 1 : j])
            self._add(MLIR, name, argument, symbol, old_text, new_text, inside=inside)
        self._waiting = []

    def _after(self, text: str, body: bytes, position: int) -> None:
        """A pass of LLVM's has ended: the whole module follows, or what it ran on."""
        name, scope = _name_on(text)
        argument = ""
        if not scope:  # of the code generator, which says it behind the title
            head, _, on = text.partition(" (function: ")
            head, _, loop = head.partition(" (loop: ")
            name, argument = _titled(head.strip())
            scope = (on or loop).rstrip(")")
        key = "" if _MODULE.match(body) else scope
        old_body = self._latest.get(key)
        self._latest[key] = body
        began = self._began(name)
        ended = self._arrived(position)
        took = None  # what was read at once arrived who knows when
        if began is not None and ended is not None and ended > began:
            took = (ended - began) * 1000
        self._add(LLVM, name, argument, scope, body if old_body is None else old_body, body, took)

    def _machine(self, text: str, body: bytes) -> None:
        function = _FUNCTION.search(body)
        scope = function[1].decode("utf-8", "replace") if function else ""
        body = _SLOT.sub(b"", body)
        old_body = self._latest.get(f"machine {scope}", b"")
        self._latest[f"machine {scope}"] = body
        self._add(MACHINE, *_titled(text), scope, old_body, body)

    def _add(
        self,
        language: str,
        name: str,
        argument: str,
        scope: str,
        old_body: bytes = b"",
        new_body: bytes | None = None,
        took: float | None = None,
        inside: tuple[str, ...] = (),
    ) -> None:
        texts: tuple[str | None, str | None] = (None, None)
        if new_body is not None and old_body != new_body:
            texts = old_body.decode("utf-8", "replace"), new_body.decode("utf-8", "replace")
        self.passes.append(
            PassRun(
                len(self.passes) + 1,
                self._stage,
                language,
                name,
                argument,
                scope,
                () if new_body is None else inside,
                *texts,
                None if took is None else round(took, 4),
                None if took is None else BY_ARRIVAL,
                finished=new_body is not None,
            )
        )

    def _began(self, name: str) -> float | None:
        """When a pass of this name began that has not ended."""
        while self._running:
            running, seconds = self._running.pop()
            if running == name:
                return seconds
        return None

    def _arrived(self, position: int) -> float | None:
        i = bisect_left(self._arrivals, position, key=itemgetter(0))
        return self._arrivals[i][1] if i < len(self._arrivals) else None


def _name_on(text: str) -> tuple[str, str]:
    match = _LLVM_ON.fullmatch(text.strip())
    return (match["name"], match["scope"]) if match else (text.strip(), "")


def _titled(text: str) -> tuple[str, str]:
    """The name of a pass and its argument, ``""`` where it names none."""
    match = _TITLE.fullmatch(text)
    return (match["name"], match["argument"] or "") if match else (text, "")


def pipeline_of(text: str) -> list[tuple[str, str]]:
    """The passes of MLIR's textual pipeline, each with the operation that it runs on.
    ``builtin.module(inline,any(cse),llvm.func(canonicalize-llvm-ir))``."""
    out: list[tuple[str, str]] = []
    anchors: list[str] = []
    for match in _PIPELINE.finditer(text):
        if match["close"]:
            del anchors[-1:]
        elif match["open"]:
            anchors.append(match["name"])
        else:
            out.append((match["name"], anchors[-1] if anchors else "any"))
    return out


def _own_passes(ran: Sequence[tuple[str, str]], pipeline: Sequence[tuple[str, str]]) -> list[bool]:
    """Which of the passes that ran were the pass manager's own, and not run by one of them.

    From the end: a pass that runs others runs them before the next of the pass manager's own. Each
    runs on every operation of its kind. Without a pipeline (Triton 3.2 does not tell it) all are
    but those that the inliner runs on functions.
    """
    if not pipeline:
        out: list[bool] = []
        inlining = False
        for argument, operation in ran:
            inlining = argument == "inline" or (inlining and operation != "builtin.module")
            out.append(argument == "inline" or not inlining)
        return out
    is_own = [False] * len(ran)
    position = len(pipeline) - 1
    for i in range(len(ran) - 1, -1, -1):
        if position >= 0 and _is(ran[i], pipeline[position]):
            is_own[i] = True
            nested = pipeline[position][1] not in ("builtin.module", "any")
            if not (nested and i and ran[i - 1] == ran[i]):
                position -= 1
    if ran:
        is_own[0] = True
    return is_own


def _is(ran: tuple[str, str], listed: tuple[str, str]) -> bool:
    return ran[0] == listed[0] and listed[1] in (ran[1], "any")


def passes_of(
    printed: bytes, mark: str, timed: bytes = b"", arrivals: Sequence[tuple[int, float]] = ()
) -> tuple[PassRun, ...]:
    """Every pass in what was printed, with its time where a report or an arrival says it.

    ``mark`` is the word that marks begin with. ``timed`` is what was printed by the same stages
    with timers on; ``arrivals`` say when each part of ``printed`` was there, in seconds.
    """
    reader = _Reader(arrivals)
    for part in _parts(printed, mark.encode()):
        reader.read(*part)
    reader.end()
    return tuple(_with_times(reader.passes, timed, mark))


# -- times ----------------------------------------------------------------------------------------

_MLIR_ROW = re.compile(r"\s*(?P<seconds>\d+\.\d+) \([ \d.]+%\)(?P<indent> +)(?P<name>\S.*)")
_SECONDS = re.compile(r"\d{1,9}\.\d{1,9}")
MAX_REPORT_ROWS = 200_000


def _with_times(passes: Sequence[PassRun], timed: bytes, mark: str) -> Iterator[PassRun]:
    mlir: dict[str, list[tuple[str, float]]] = defaultdict(list)
    llvm: dict[tuple[str, int], float] = {}
    stage = ""
    report = ""
    for row in timed.decode("utf-8", "replace").splitlines()[:MAX_REPORT_ROWS]:
        if row.startswith(f"{mark} stage "):
            stage = row.split()[-1]
        elif "Execution time report" in row:
            report = BY_MLIR
        elif "Pass execution timing report" in row:
            report = BY_LLVM
        elif report == BY_MLIR and (match := _MLIR_ROW.fullmatch(row)):
            name = match["name"]
            if not name.startswith(("(A)", "'")) and name not in ("Rest", "Total"):
                mlir[stage].append((name, round(float(match["seconds"]) * 1000, 4)))
        elif report == BY_LLVM and (row_time := _llvm_row(row)) is not None:
            llvm[row_time[0]] = row_time[1]
    runs: Counter[str] = Counter()
    mlir_times: dict[int, float] = {}
    for name, rows in mlir.items():
        mlir_times |= _aligned(name, passes, rows)
    for run in passes:
        took = mlir_times.get(run.number)
        source = BY_MLIR
        if run.language != MLIR and run.milliseconds is None:
            runs[run.name] += 1
            took = llvm.get((run.name, runs[run.name]))
            source = BY_LLVM
        yield run if took is None else replace(run, milliseconds=took, timed_by=source)


def _llvm_row(row: str) -> tuple[tuple[str, int], float] | None:
    """A pass, the how manieth of its name, and its wall time in ms, the last figure before it."""
    head, _, title = row.rpartition("%)  ")
    figures = head.rpartition(" (")[0].split()
    name, _, nth = title.partition(" #")
    if not name or name == "Total" or not figures or not _SECONDS.fullmatch(figures[-1]):
        return None
    number = int(nth) if nth.isascii() and nth.isdecimal() and len(nth) < 9 else 1
    return (name, number), round(float(figures[-1]) * 1000, 4)


def _aligned(
    stage: str, passes: Iterable[PassRun], rows: Sequence[tuple[str, float]]
) -> dict[int, float]:
    """Times of a stage's passes by number: the report has them in order, and those within them.

    From the end, as a pass's own come before those that it runs: each takes the last row of its
    name that is left; where the report has too few, none is known.
    """
    stage_passes = [p for p in passes if p.stage == stage and p.language == MLIR]
    out: dict[int, float] = {}
    end = len(rows)
    for run in reversed(stage_passes):
        fits = next((i for i in range(end - 1, -1, -1) if rows[i][0] == run.name), None)
        if fits is not None:
            end = fits
            out[run.number] = rows[fits][1]
    return out


# -- operations -----------------------------------------------------------------------------------

_FX_OPERATION = re.compile(
    r"^[ \t]+\w{1,400}(?:: ?\"[^\"\n]*\")? = ([A-Za-z_][\w.]{0,400})\(", re.MULTILINE
)
_MLIR_OPERATION = re.compile(
    r'^[ \t]*(?:%[^=\n]{1,2000}?= )?"?((?:[a-z_]\w*\.)+\w+)"?', re.MULTILINE
)
_LLVM_OPERATION = re.compile(
    r"^[ \t]+(?:%\S+ = )?(?:(?:tail|musttail|notail) )?([a-z]\w*)(?= |$)([^\n]*)", re.MULTILINE
)
_MACHINE_OPERATION = re.compile(
    r"^[ \t]+(?:[%$@][^=\n]{1,2000}?= )?(?:[a-z-]+ )*([A-Z][A-Za-z0-9_]*)(?= |$)([^\n]*)",
    re.MULTILINE,
)
_CALLED = re.compile(r'@"?([\w.$-]+)"?\(')
_ASSEMBLY = re.compile(r'(?:asm (?:[a-z]{1,20}+ ){0,4}+|INLINEASM &)"((?:[^"\\]++|\\.)*+)"')
_MNEMONIC = re.compile(
    r"(?:^|[;{}]|\\0[9A]|\\22|\$\d+ )\s*(?:@!?[$%\w]+\s+)?([a-z][a-z0-9_]+(?:[.:]+[a-z0-9_]+)*)"
)
_TYPE = re.compile(r"[if]\d+|ptr|label|void")


def operations(text: str, language: str) -> Counter[str]:
    """Count each operation of a text. A call of LLVM's is named by what it calls, assembly by its
    instructions; one of a graph of torch.fx without the ``torch.ops`` before it."""
    if language == MLIR:
        return Counter(_MLIR_OPERATION.findall(text))
    if language == FX:
        return Counter(name.removeprefix("torch.ops.") for name in _FX_OPERATION.findall(text))
    pattern = _LLVM_OPERATION if language == LLVM else _MACHINE_OPERATION
    out: Counter[str] = Counter()
    for name, arguments in pattern.findall(text):
        if (
            name in ("call", "INLINEASM")
            and (inline := _ASSEMBLY.search(name + arguments)) is not None
        ):
            out.update(_MNEMONIC.findall(inline[1]) or ["asm"])
        elif name == "call" and (called := _CALLED.search(arguments)) is not None:
            out[called[1]] += 1
        elif not _TYPE.fullmatch(name):
            out[name] += 1
    return out


def named(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The operations that a word means: those of that name, with or without the dialect, or that a
    glob fits; if there are no such, those that contain it."""
    all_names = frozenset(names)
    exact = frozenset(
        n
        for n in all_names
        if n == pattern or n.rpartition(".")[2] == pattern or fnmatchcase(n, pattern)
    )
    return exact or frozenset(n for n in all_names if pattern and pattern in n)


class PassFilter(Struct, frozen=True):
    """Which passes are shown: of one stage, or those that made more or fewer of an operation."""

    stage: str | None = None
    introduces: str | None = None
    removes: str | None = None
    unchanged: bool = False

    def matching_operations(self, passes: Sequence[PassRun]) -> frozenset[str]:
        all_names = frozenset(name for p in passes for name in p.operations)
        words = filter(None, (self.introduces, self.removes))
        return frozenset(name for word in words for name in named(word, all_names))

    def select(self, passes: Sequence[PassRun]) -> tuple[PassRun, ...]:
        signed = (("+", self.introduces), ("-", self.removes))
        words = [(sign, word) for sign, word in signed if word is not None]
        fit: Iterable[PassRun] = _fitting(passes, words)
        if not words:
            fit = (p for p in passes if self.unchanged or p.changed or not p.finished)
        return tuple(p for p in fit if self.stage in (None, p.stage))


def searched(passes: Sequence[PassRun], text: str) -> Iterator[PassRun]:
    """The passes that all words fit: of ``+tt.dot`` there are more after them, of ``-tt.dot``
    fewer; another word is an operation of which there are more or fewer, or a part of a name."""
    words = []
    for word in text.split():
        sign = word[0] if word[0] in "+-" and len(word) > 1 else ""
        words.append((sign, word.lstrip("+-") or word))
    return _fitting(passes, words)


def _fitting(passes: Sequence[PassRun], words: Sequence[tuple[str, str]]) -> Iterator[PassRun]:
    changes = {run.number: run.operations for run in passes if run.changed}
    all_names = frozenset(chain(*changes.values()))
    named_words = [(sign, word.lower(), named(word, all_names)) for sign, word in words]
    for run in passes:
        operations = changes.get(run.number, {})
        grown = {name: count - previous for name, (previous, count) in operations.items()}
        about = f"{run.name} {run.argument} {run.stage}".lower()
        for sign, word, names in named_words:
            in_name = not sign and word in about
            if not in_name and not _changed_any(grown, names, sign):
                break
        else:
            yield run


def _changed_any(grown: Mapping[str, int], names: Iterable[str], sign: str) -> bool:
    """Whether there are more (``+``) or fewer of an operation; without a sign, either."""
    changes = [grown[name] for name in names if name in grown]
    if not sign:
        return bool(changes)
    return any((change > 0) == (sign == "+") for change in changes)
