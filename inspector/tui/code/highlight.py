"""Tokens of a listing's lines, found when a line is first looked at; its labels and locations.

PTX, SASS and the IRs are read line by line, so that the millionth line costs what the first does.
Python and CUDA have strings and comments over several lines: their texts, unless huge, are read
whole by the thread that loads them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from pygments.lexer import Lexer
from pygments.token import Name, Token, _TokenType

from inspector.base.model import Location, Stage
from inspector.parsers.line import Kind, Listing
from inspector.tui.widgets.notice import TAB_CELLS, label, squeezed, visible

Span = tuple[int, int, _TokenType]
Spans = tuple[Span, ...]

MAX_LINES_AT_ONCE = 4000
"""Lines up to which Python and CUDA are read whole (about a second at worst, in a thread)."""

SEARCH_LINES = 4
"""Lines between two instructions, or between a ``.loc`` and its first."""

INDENT = "  "
"""What represents the tab before each instruction of PTX: beside others a pane is narrow."""

MAX_CHARS = 5000
"""Characters beyond which a line is shown plain: such lines are data, and lexers are slow."""


def texts_of(listing: Listing) -> Sequence[str]:
    return [line.text for line in listing.lines]


_PARAMETER = re.compile(r"(?<![\w$%.])[\w$%.]+_param_(\d+)(?![\w$%.])")


_CONSTANT = re.compile(r"c\[0x0\]\[(0x[0-9a-f]{1,8})\]")
"""A word of the constant bank in which SASS finds a kernel's parameters."""

_ADDRESS = re.compile(r"^ *+/\*[0-9a-f]{4,}\*/ {0,2}|(?<! ) *+/\* 0x[0-9a-f]+ \*/")
"""What SASS has around an instruction: `` /*0010*/       S2R R0, SR_TID.X ;  /* 0x000… */``."""

IR = (Stage.TTIR.value, Stage.TTGIR.value, "llvm")
"""Languages in which each instruction names its own location."""

_MLIR_PLACE = re.compile(
    r"(?<!\s)\s++loc\((?:#[\w$.\-]*|unknown|callsite\(#[\w$.\-]* at #[\w$.\-]*\)"
    r"|\"([\w$.\-]+)\"\(#[\w$.\-]*\))\)"
)
_LLVM_PLACE = re.compile(r",? !dbg !\d+")


def _unless_it_names(match: re.Match[str]) -> str:
    """Nothing, for a location of MLIR; itself, where it calls an argument what it is not called."""
    text = match.string
    name = match[1]
    if name is None or text.startswith(f"%{name}:", text.rfind("%", 0, match.start())):
        return ""
    return match[0]


def without_place(text: str, language: str) -> str:
    if len(text) > MAX_CHARS or text[:1] in ("#", "!"):
        return text
    if language == "llvm":
        return _LLVM_PLACE.sub("", text) if "!dbg !" in text else text
    return _MLIR_PLACE.sub(_unless_it_names, text) if "loc(" in text else text


_NAMED = re.compile(r"…[\w$.\[\]]+(?=[],+\s]|\Z)")


def _with_names(text: str, spans: Iterable[Span]) -> Spans:
    named_spans: list[Span] = []
    for match in _NAMED.finditer(text):
        # A bracket that was opened before the name is not of it.
        unopened = match[0].count("]") > match[0].count("[")
        named_spans.append((match.start(), match.end() - unopened, Name.Variable))
    free = [span for span in spans if not _overlaps(span, named_spans)]
    return tuple(sorted((*free, *named_spans), key=itemgetter(0)))


def _overlaps(span: Span, named_spans: Iterable[Span]) -> bool:
    start, end, _ = span
    return any(first < end and start < last for first, last, _ in named_spans)


class Highlighter:
    """The visible text and the tokens of each line of a listing.

    ``names`` are parameters by symbol, or by place in SASS's constant bank of the lines ``kernel``.
    A thread fills them in.
    """

    def __init__(self, listing: Listing, lexer: Lexer | None, spans: tuple[Spans, ...] | None):
        self.listing = listing
        self.texts = texts_of(listing)
        self.verbatim = False
        self.abridged = False
        self.with_addresses = True
        """Whether SASS has its addresses and encodings, except as the file has them."""
        self.names: Mapping[str, str] = {}
        self.kernel = range(0)
        self._lexer = lexer
        self._all_spans = spans
        self.tokens = lru_cache(maxsize=4096)(self._find)

    def text(self, n: int) -> str:
        if not self.abridged:
            return self.own_text(n)
        raw = self.texts[n - 1]
        language = self.listing.language
        if language in IR:
            return visible(without_place(raw, language))
        if language == Stage.SASS.value:
            text = self.own_text(n)
            if not self.with_addresses:
                text = _ADDRESS.sub("", text)
            named = bool(self.names) and n in self.kernel and "c[0x0][" in text
            return _CONSTANT.sub(self._constant, text) if named else text
        if language != Stage.PTX.value:
            return self.own_text(n)
        text = visible(INDENT + raw[1:] if raw.startswith("\t") else raw)
        return _PARAMETER.sub(self._parameter, text) if "_param_" in text else text

    def own_text(self, n: int) -> str:
        text = visible(self.texts[n - 1])
        sass = self.listing.language == Stage.SASS.value
        return squeezed(text) if sass and not self.verbatim else text

    def _parameter(self, match: re.Match[str]) -> str:
        """``…n_cols`` for a kernel's symbol and ``_param_3``; ``…3`` where it has no name."""
        name = self.names.get(match[0])
        short = f"…{match[1] if name is None else label(name)}"
        return short if len(short) < len(match[0]) else match[0]

    def _constant(self, match: re.Match[str]) -> str:
        """``c[…n_cols]`` for a parameter's place in the constant bank."""
        name = self.names.get(match[1])
        return match[0] if name is None else f"c[…{label(name)}]"

    def as_it_is(self, verbatim: bool) -> None:
        self.verbatim = verbatim
        self.abridged = not verbatim
        self.tokens.cache_clear()

    def show_addresses(self, shown: bool) -> None:
        self.with_addresses = shown
        self.tokens.cache_clear()

    def is_silent(self, n: int) -> bool:
        """Whether line ``n`` is blank or a comment: it comes from nowhere."""
        text = self.texts[n - 1].lstrip()
        return not text or text.startswith("//")

    def new_place(self, n: int) -> Location | None:
        """Where line ``n`` of code is from, if the instruction before is from elsewhere."""
        lines = self.listing.lines
        line = lines[n - 1]
        code = self.listing.language == Stage.SASS.value or line.opcode is not None
        if line.source is None or not code:
            return None
        earlier_lines = (
            lines[line_number - 1] for line_number in range(n - 1, max(0, n - SEARCH_LINES), -1)
        )
        instruction = next(
            (
                earlier_line
                for earlier_line in earlier_lines
                if earlier_line.kind is Kind.INSTRUCTION
            ),
            None,
        )
        return (
            None if instruction is not None and instruction.source == line.source else line.source
        )

    def spans(self, n: int) -> Spans:
        return self._all_spans[n - 1] if self._all_spans is not None else self.tokens(self.text(n))

    def _find(self, text: str) -> Spans:
        if self._lexer is None or len(text) > MAX_CHARS:
            return ()
        try:
            tokens = self._lexer.get_tokens_unprocessed(text + "\n")
            spans = (
                (start, min(start + len(value), len(text)), token)
                for start, token, value in tokens
                if value and start < len(text) and token is not Token.Text
            )
            return _with_names(text, spans) if self.abridged and "…" in text else tuple(spans)
        except Exception:  # a lexer's fault must not cost the line
            return ()


def _whole_text(texts: list[str], lexer: Lexer) -> tuple[Spans, ...]:
    out: list[list[Span]] = [[] for _ in texts]
    row = column = 0
    for _, token, value in lexer.get_tokens_unprocessed("\n".join(texts) + "\n"):
        pieces = value.split("\n")
        for index, piece in enumerate(pieces):
            if index:
                row, column = row + 1, 0
            if piece and row < len(out):
                out[row].append((column, column + len(piece), token))
            column += len(piece)
    return tuple(tuple(spans) for spans in out)


def width_of(texts: Sequence[str]) -> int:
    """At least the cells of the widest line, found without measuring every character."""
    return max(
        (
            (len(text) if text.isascii() else 2 * len(text)) + (TAB_CELLS - 1) * text.count("\t")
            for text in texts
        ),
        default=0,
    )


def highlighter_for(listing: Listing, stage: Stage, path: str | None) -> Highlighter:
    try:
        # Imported in the loading thread: the first frame need not wait for the lexers.
        from inspector.parsers.lexers import lexer_for

        lexer = lexer_for(stage, path)
        spans = None
        if stage in (Stage.SOURCE, Stage.OUTPUT_CODE) and len(listing.lines) <= MAX_LINES_AT_ONCE:
            texts = [visible(text) for text in texts_of(listing)]
            if max(map(len, texts), default=0) <= MAX_CHARS:
                spans = _whole_text(texts, lexer)
    except Exception:  # without colours the text can still be read
        return Highlighter(listing, None, None)
    return Highlighter(listing, lexer, spans)


_LABEL = re.compile(r"\s*([\w$.^%]+):|\s*(\^\w+)\(")
"""A label at the beginning of a line, as PTX, SASS, LLVM IR and MLIR write one."""

_DEBUGGERS = re.compile(r"\$L__(?:tmp|func_|info|debug|sec|ptrau)|\.L__?debug")
"""Labels that only debuggers go to."""

MACHINE = frozenset((Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX, Stage.SASS))
"""Stages whose lines may begin with a label."""

MAX_LABELS = 5000


def label_of(text: str) -> str | None:
    match = _LABEL.match(text)
    return None if match is None else match[1] or match[2]


def target_line(listing: Listing, n: int, target: str) -> int | None:
    name = target.lstrip("%")
    label_lines = [o.n for o in listing.lines if name in o.text and label_of(o.text) == name]
    function = next((f for f in listing.functions if f.first <= n <= f.last), None)
    inside = [
        m for m in label_lines if function is not None and function.first <= m <= function.last
    ]
    named = [f.first for f in listing.functions if f.name == target]
    return next(iter((*inside, *label_lines, *named)), None)


def labels(listing: Listing) -> tuple[int, ...]:
    return tuple(line.n for line in listing.lines if label_of(line.text) is not None)


def labels_of(listing: Listing, stage: Stage) -> list[tuple[str, int, str]]:
    out = [(f.name, f.first, "function") for f in listing.functions]
    if stage not in MACHINE:
        return out
    names = {name for name, _, _ in out}
    for n, text in enumerate(texts_of(listing), 1):
        name = label_of(text)
        if name and not _DEBUGGERS.match(name) and name.removeprefix(".text.") not in names:
            inside = any(f.first < n <= f.last for f in listing.functions)
            if inside or not listing.functions:
                out.append((name, n, "label"))
    return out[:MAX_LABELS]


_SEARCH_LINES = 64  # lines after one without a location in which an instruction is looked for


def named_frames(location: Location) -> list[tuple[str, str]]:
    """The name of each frame's file, and where in it."""
    return [
        (
            label(frame.file.replace("\\", "/").rpartition("/")[2]),
            f"{frame.line}:{frame.column}" if frame.column else f"{frame.line}",
        )
        for frame in location.frames()
    ]


def place(location: Location | None) -> str:
    if location is None:
        return "no source location"
    return " ← ".join(f"{file}:{line_number}" for file, line_number in named_frames(location))


def location_of(listing: Listing, n: int) -> Location | None:
    """Where line ``n`` is from; what is no instruction is from where the next one is."""
    machine = listing.language in (Stage.PTX.value, Stage.SASS.value)
    searches = machine and any(f.first < n < f.last for f in listing.functions)
    lines = listing.lines[n - 1 : n + (_SEARCH_LINES if searches else 0)]
    candidates = (
        candidate
        for candidate in lines
        if candidate.source is not None or candidate.kind is Kind.INSTRUCTION
    )
    return next((candidate.source for candidate in candidates), None)
