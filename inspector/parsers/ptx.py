"""PTX: lossless line parser for any producer (LLVM, NVVM, a person), and ``.file`` and ``.loc``.

Written from the PTX ISA. A line that is one plain instruction is read by one regular expression,
as are comments and data; every other line takes the slow way. ``.loc file line column[,
function_name label[+offset], inlined_at file line column]``: the call site is that of an earlier
``.loc``, so chains are found by looking it up. nvcc writes ``.file`` at the end of the text.

The LLVM of Triton 3.9 writes ``.loc`` for the lines of inline assembly too, counting on from the
statement's line. The place of a block, and of what follows, is that of the ``.loc`` before it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from sys import intern

from inspector.base.names import words
from inspector.base.stage import MAX_FRAMES, Location
from inspector.parsers.line import Function, Kind, Line, Listing, unescape
from inspector.parsers.ptx_statement import (
    AHEAD,
    BRANCHES,
    DECLARED,
    HEADER,
    KNOWN,
    LABEL,
    PLAIN,
    SPECIAL,
    SYMBOL,
    WORD,
    OperandReader,
    PtxInstruction,
    SymbolOperand,
    VectorOperand,
    result_count,
    split_header,
    strip,
)

# -- locations ------------------------------------------------------------------------------------

_FILE = re.compile(
    r'^[ \t]*+\.file[ \t]+(\d{1,18})[ \t]+"((?:[^"\\\n]|\\.)*+)"(?:[ \t]*"((?:[^"\\\n]|\\.)*+)")?',
    re.MULTILINE,
)
_LOC = re.compile(
    r"[ \t]*\.loc[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?"
    r"(?:[^/\n]*?inlined_at[ \t]+(\d{1,18})[ \t]+(\d{1,18})(?:[ \t]+(\d{1,18}))?)?"
)
# LLVM's comment, which has the chain if the directive has none (Triton before 3.9).
_COMMENT = re.compile(r"([^@\[\]\n]{1,4096}?):(\d{1,9}):(\d{1,9})[ \]]*\Z")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|(.))")


Place = tuple[int, int, int]
"""A file's index, line and column."""


def _read_loc(text: str) -> tuple[Place, Place | None] | None:
    """The place of a ``.loc`` and the call site it names; None if it is not well-formed."""
    match = _LOC.match(text)
    if match is None:
        return None
    numbers = [int(number or 0) for number in match.groups()]
    place = (numbers[0], numbers[1], numbers[2])
    site = (numbers[3], numbers[4], numbers[5])
    return place, None if match[4] is None else site


def _commented(comment: str, paths: Mapping[str, str]) -> Location | None:
    """The call sites of ``f.py:263:15 @[ g.py:293:36 @[ h.py:48:26 ] ]``.

    ``paths`` are those of file names.
    """
    location: Location | None = None
    for part in reversed(comment.split(" @[ ")[1 : MAX_FRAMES + 1]):
        match = _COMMENT.match(part.strip())
        if match is None:
            return None
        if line := int(match[2]):
            path = paths.get(match[1], match[1])
            location = Location(path, line, int(match[3]), location)
    return location


class Locations:
    """The locations of one text's ``.loc`` directives, which are read in order."""

    def __init__(self, text: str) -> None:
        self.files = read_files(text)
        # The last path of each file name, the bare name if there are several.
        self._paths: dict[str, str] = {}
        for path in dict.fromkeys(self.files.values()):
            name = path.rpartition("/")[2]
            self._paths[name] = name if name in self._paths else path
        self._latest: dict[Place, tuple[Location, int]] = {}
        """The last location of each place, and how many frames it has."""

    def next(self, text: str) -> Location | None:
        """The location of the next ``.loc``; None for line 0, which is "no location"."""
        head, _, comment = text.partition("//")
        mark = _read_loc(head)
        if mark is None or mark[0][1] == 0:
            return None
        place, site = mark
        outer: Location | None = None
        depth = 0
        if site is not None:
            outer, depth = self._latest.get(site, (None, 0))
            if outer is None or depth >= MAX_FRAMES:
                outer = self._location(site, None)
                depth = 1
        elif " @[ " in comment:
            outer = _commented(comment, self._paths)
        location = self._location(place, outer)
        # Equal neighbours are one object.
        latest = self._latest.get(place)
        if latest is not None and latest[0] == location:
            return latest[0]
        self._latest[place] = location, depth + 1
        return location

    def _location(self, place: Place, inlined_at: Location | None) -> Location:
        return Location(self.files.get(place[0], ""), place[1], place[2], inlined_at)


def read_files(text: str) -> dict[int, str]:
    """File names by index; if a ``.file`` has two names, the first is the folder."""
    files: dict[int, str] = {}
    for index, name, second_name in _FILE.findall(text):
        path = unescape(name, _ESCAPE, 8)
        if second_name:
            path = f"{path.rstrip('/')}/{unescape(second_name, _ESCAPE, 8)}"
        files.setdefault(int(index), path)
    return files


# -- lines ----------------------------------------------------------------------------------------

_OPERANDS = re.compile(r"[\s%\w$.,{}()\[\]+\-|!<>:&*~^]*+;?\s*+\Z")

ONE_LINE = words(
    ".version .target .address_size .loc .file .section .maxnreg .maxntid .reqntid .minnctapersm "
    ".maxnctapersm .noreturn .explicitcluster .reqnctapercluster .maxclusterrank .b8 .b16 .b32 "
    ".b64 .byte .4byte .8byte .quad @@DWARF .dwarf .abi_preserve .abi_preserve_control "
    ".blocksareclusters"
)
"""Directives that end with their line instead of a ``;``."""

_BEGIN_ASSEMBLY = "// begin inline asm"
_END_ASSEMBLY = "// end inline asm"

_FUNCTION = re.compile(r"\.(entry|func)\b(?:\s|\.[\w$@]++|\([^)]*+\)?+|[.(])*+([\w$%]++)?")
_REGISTERS = re.compile(r"%[\w$]++").findall
_NOTHING = re.compile(
    r"[ \t]*+(\.b(?:8|16|32|64)[ \t]++[\w,$.+\-() \t]*+)?+(?://.*+)?\r?\Z", re.DOTALL
).match
"""A blank, a comment, or the data of a section (of which the debugging ones have thousands)."""


def parse_ptx(text: str) -> Listing:
    """Parse a PTX text.

    ``source`` is that of the last ``.loc`` before a line in the same function and outside of
    inline assembly, None if that is line 0. Special registers (``%tid.x``) are not registers of
    the kernel, so they are neither in ``defs`` nor in ``uses``. A ``call``'s target is the
    function.
    """
    reader = _LineReader(text)
    lines = [reader.line(n, line_text) for n, line_text in enumerate(reader.texts, 1)]
    if reader.begin:
        reader.end(len(lines))
    return Listing("ptx", lines, tuple(reader.functions))


def inline_assembly_lines(listing: Listing) -> frozenset[int]:
    """Lines whose last ``.loc`` is inside of inline assembly: SASS made of them names its line."""
    inside = False
    is_loc_inside = False
    line_numbers: list[int] = []
    for line in listing.lines:
        if line.kind is Kind.COMMENT:
            inside = _inside_assembly(line.text, inside)
        elif line.kind is Kind.DIRECTIVE and _LOC.match(line.text):
            is_loc_inside = inside
        elif is_loc_inside and line.source is not None:
            line_numbers.append(line.n)
    return frozenset(line_numbers)


def _inside_assembly(comment: str, inside: bool) -> bool:
    """Whether the lines after a comment are inline assembly; ``inside`` is so before it."""
    mark = comment.strip()
    return mark == _BEGIN_ASSEMBLY or (inside and mark != _END_ASSEMBLY)


@lru_cache(maxsize=4096)
def _interned_opcode(opcode: str) -> tuple[str, str, int]:
    """Base and opcode, each one string however many lines have it, and how many results it has."""
    base = intern(opcode.partition(".")[0])
    return base, intern(opcode), result_count(base, opcode)


def _is_plain_instruction(text: str) -> bool:
    """Whether a line inside an unfinished instruction is plainly the next one."""
    match = PLAIN.match(text)
    return match is not None and (bool(match[2]) or match[3].partition(".")[0] in KNOWN)


def _targets(instruction: PtxInstruction) -> list[str]:
    """The label or the function that an instruction goes to, if it names one."""
    if instruction.base not in BRANCHES:
        return []
    places = [o for o in instruction.operands if not isinstance(o, VectorOperand)]
    if not places:
        return []
    place = places[0] if instruction.base == "call" else places[-1]
    return [place.name] if isinstance(place, SymbolOperand) else []


class _LineReader:
    """Reads one line after the other; its state is what a line needs to know of those before."""

    def __init__(self, text: str) -> None:
        self.texts = text.split("\n")
        self.locations = Locations(text)
        self.functions: list[Function] = []
        self.comment = False
        self._leave()
        # Of the line that is read:
        self.n = 0
        self.code = ""
        self.kind = Kind.UNKNOWN
        self.label: str | None = None
        self.instructions: list[PtxInstruction] = []
        self.targets: tuple[str, ...] = ()

    def _leave(self, begin: int = 0) -> None:
        """Forget all that was declared; a function's header begins on line ``begin``, if not 0."""
        self.begin = begin
        self.open = "h" if begin else ""
        """What is unfinished: ``i`` an instruction, ``d`` a directive, ``h`` a header."""
        self.depth = 0
        """Open braces."""
        self.location: Location | None = None
        self.assembly = False
        """Whether inline assembly is open."""
        self.operands = OperandReader()
        """With the registers declared without ``%`` that are in scope."""
        self.scopes: list[tuple[int, OperandReader]] = []
        """For each block that declares such registers: its depth, and the reader outside of it."""

    def end(self, last: int) -> None:
        header, *_ = split_header(self.texts[self.begin - 1 : last])
        match = _FUNCTION.search(header)
        name, entry = (match[2] or "", match[1] == "entry") if match else ("", False)
        self.functions.append(Function(name, self.begin, last, entry))
        self._leave()

    def line(self, n: int, text: str) -> Line:
        if not self.comment and not self.open:
            if match := PLAIN.match(text):
                if (line := self._plain_instruction_line(n, text, match)) is not None:
                    return line
            elif empty := _NOTHING(text):
                if empty[1]:
                    return Line(n, text, Kind.DIRECTIVE)
                return self._empty(n, text, bool(text) and not text.isspace())
        return self._parsed_line(n, text)

    def _parsed_line(self, n: int, text: str) -> Line:
        """Any line, piece by piece: the slow way."""
        code, comment = strip(text, self.comment)
        commented = self.comment or len(code) != len(text)
        self.comment = comment
        stripped = code.strip()
        if not stripped:
            return self._empty(n, text, commented)
        if stripped.startswith(".loc") and not stripped[4:5].isalnum():
            in_function = self.begin > 0 or self.depth > 0
            if not self.assembly:
                self.location = self.locations.next(text) if in_function else None
            return Line(n, text, Kind.DIRECTIVE)
        if self.open == "i" and (not _OPERANDS.match(code) or _is_plain_instruction(text)):
            self.open = ""
        self.n = n
        self.code = code
        self.label = None
        self.instructions = []
        self.targets = ()
        self.kind = Kind.UNKNOWN
        source = self.location if self.open == "i" else None
        position = self._continued() if self.open else 0
        if position < len(code) and not code[position:].isspace():
            while position < len(code):
                position = self._step(position)
        return self._assembled_line(text, source)

    def _empty(self, n: int, text: str, commented: bool) -> Line:
        """A line without code."""
        if not commented:
            return Line(n, text, Kind.BLANK)
        self.assembly = _inside_assembly(text, self.assembly)
        return Line(n, text, Kind.COMMENT)

    def _plain_instruction_line(self, n: int, text: str, match: re.Match[str]) -> Line | None:
        """A line that is one instruction; None if it needs its operands told apart."""
        _, guard, opcode, operands = match.groups()
        base, opcode, results = _interned_opcode(opcode)
        if self.operands.declared or base in BRANCHES:
            return None
        defs: tuple[str, ...] = ()
        # A name of many lines is one string, also for ``ptx_code``.
        used_names = list(map(intern, _REGISTERS(operands))) if operands else []
        if not SPECIAL.isdisjoint(used_names):
            used_names = [r for r in used_names if r not in SPECIAL]
        if used_names and results:
            if results == 1 and operands[0] == "%" and "|" not in operands:
                defs = (used_names.pop(0),)
            elif operands[0] != "[":
                written, read = self.operands.build_instruction(
                    n, None, None, opcode, operands
                ).accesses()
                defs = tuple(r.name for r in written)
                used_names = [r.name for r in read]
        if guard:
            used_names.insert(0, guard)
        uses = tuple(dict.fromkeys(used_names))
        return Line(n, text, Kind.INSTRUCTION, base, opcode, defs, uses, self.location)

    def _continued(self) -> int:
        """Where the rest of a line begins that begins inside a statement."""
        code = self.code
        self.kind = Kind.INSTRUCTION if self.open == "i" else Kind.DIRECTIVE
        end = code.find(";")
        if self.open == "h":
            if code.find("{", 0, end if end >= 0 else len(code)) >= 0:
                self.open = ""
                return 0
            if end >= 0:
                self._leave()
            return len(code)
        head = code if end < 0 else code[:end]
        self._braces(head)
        if end < 0:
            return len(code)
        self.open = ""
        return end + 1

    def _assembled_line(self, text: str, source: Location | None) -> Line:
        """The line; registers that an earlier statement on it defines are not ``uses``."""
        n = self.n
        label = self.label
        if not self.instructions:
            return Line(n, text, self.kind, label=label, targets=self.targets, source=source)
        defs: dict[str, None] = {}
        uses: dict[str, None] = {}
        defined: set[str] = set()
        targets: list[str] = []
        for instruction in self.instructions:
            written, read = instruction.accesses()
            uses.update((r.name, None) for r in read if r.name not in defined)
            defs.update((r.name, None) for r in written)
            if instruction.guard is None:
                defined.update(r.name for r in written)
            targets += _targets(instruction)
        base = self.instructions[0].base
        opcode = self.instructions[0].opcode
        line_fields = (base, opcode, tuple(defs), tuple(uses), self.location, label, tuple(targets))
        return Line(n, text, Kind.INSTRUCTION, *line_fields)

    def _step(self, start: int) -> int:
        """Read the piece that begins at ``start``; returns where it ends."""
        c = self.code[start]
        if c.isspace() or c == ";":
            return start + 1
        if c in "{}()":
            self.kind = Kind.DIRECTIVE if self.kind is Kind.UNKNOWN else self.kind
            if c == "{":
                self.depth += 1
            elif c == "}":
                self._close()
            return start + 1
        if marked := LABEL.match(self.code, start):
            self.label = self.label or marked[1]
            self.kind = Kind.LABEL if self.kind is not Kind.INSTRUCTION else self.kind
            return marked.end()
        if c == "." or self.code.startswith("@@DWARF", start):
            return self._read_directive(start)
        return self._instruction(start)

    def _braces(self, code: str) -> None:
        self.depth = max(0, self.depth + code.count("{") - code.count("}"))

    def _close(self) -> None:
        """Leave a block or the function at its ``}``."""
        self.depth = max(0, self.depth - 1)
        if self.depth == 0 and self.begin:
            self.end(self.n)
        while self.scopes and self.scopes[-1][0] > self.depth:
            self.operands = self.scopes.pop()[1]

    def _read_directive(self, start: int) -> int:
        code = self.code
        size = len(self.code)
        self.kind = Kind.DIRECTIVE if self.kind is Kind.UNKNOWN else self.kind
        end = code.find(";", start)
        until = end if end >= 0 else size
        word = WORD.match(code, start)
        name = word[1] if word else ""
        if not self.depth and HEADER.match(code, start, min(size, start + 1024)):
            return self._header(start, until)
        if name == ".reg":
            self._declare(code[start:until])
        elif name == ".branchtargets":
            listed = code[start:until] + (self._rest_of_statement() if end < 0 else "")
            self.targets = tuple(SYMBOL.findall(listed)[1:])
        if end >= 0:
            return end + 1
        self.open = "" if name in ONE_LINE else "d"
        if name == ".section" and (body := code.find("{", start)) >= 0:
            return body
        self._braces(code[start:])
        return size

    def _header(self, start: int, until: int) -> int:
        """Read ``.entry`` or ``.func`` up to its body, its ``;`` or the line's end."""
        self._leave(self.n)
        body = self.code.find("{", start, until)
        if body >= 0:
            self.open = ""
            return body
        if until < len(self.code):
            self._leave()
            return until + 1
        return until

    def _declare(self, statement: str) -> None:
        """Note the names without ``%`` that a ``.reg`` declares; ``r<3>`` is r0, r1, r2."""
        out: set[str] = set()
        for name, count in DECLARED.findall(statement):
            if name[0] != "%":
                numbered = [f"{name}{i}" for i in range(min(int(count or 0), 4096))]
                out.update(numbered if count else [name])
        if out:
            if not self.scopes or self.scopes[-1][0] != self.depth:
                self.scopes.append((self.depth, self.operands))
            self.operands = OperandReader(self.operands.declared | out)

    def _instruction(self, start: int) -> int:
        end = self.code.find(";", start)
        piece = self.code[start:end] if end >= 0 else self.code[start:]
        instruction = self.operands.instruction(piece)
        if end < 0 and instruction is not None:
            if instruction.base in KNOWN:
                instruction = self.operands.instruction(piece + self._rest_of_statement())
                self._braces(piece)
                self.open = "i"
            else:
                instruction = None
        if instruction is not None:
            self.instructions.append(instruction)
            self.kind = Kind.INSTRUCTION
        return end + 1 if end >= 0 else len(self.code)

    def _rest_of_statement(self) -> str:
        """The code after the line up to the statement's end."""
        parts: list[str] = []
        comment = False
        for text in self.texts[self.n : self.n + AHEAD]:
            code, comment = strip(text[:4096], comment)
            end = code.find(";")
            if end >= 0:
                parts.append(code[:end])
                break
            if code.lstrip()[:1] not in (".", "@"):
                parts.append(code)
        return " " + " ".join(parts)
