"""LLVM IR text: one instruction a line, locations through ``!dbg``."""

import re
from functools import cached_property, lru_cache

from inspector.base.names import words
from inspector.base.stage import Location
from inspector.parsers.line import Function, Kind, Line, Listing, unescape

# LLVM debug metadata: ``!dbg`` → DILocation → scope → file, with ``inlinedAt``.
#
# LLVM Language Reference, "Specialized Metadata Nodes".

_NODE = re.compile(r"!(\d{1,18}) = (?:distinct )?!(\w+)\(")
_NUMBER = re.compile(r"\b(line|column): (\d{1,18})\b")
_REFERENCE = re.compile(r"\b(scope|file|inlinedAt): !(\d{1,18})\b")
_TEXT = re.compile(r'\b(filename|directory): "([^"]*)"')
_INLINE = re.compile(r"!dbg !DILocation\(([^()]*)\)")
_DBG = re.compile(r"!dbg !(\d{1,18})")
_RECORD = re.compile(r"!(\d{1,18})\s*\)\s*\Z")
_HEX = re.compile(r"\\([0-9A-Fa-f]{2})")


class Metadata:
    """The numbered nodes of one module, read when the first location is needed."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self.location = lru_cache(None)(self._resolve)
        """The location of a DILocation, or of a DISubprogram (where the function begins)."""
        self._file = lru_cache(None)(self._file_of)

    @cached_property
    def _nodes(self) -> dict[int, tuple[str, str]]:
        matches = (_NODE.match(text) for text in self._texts if text[:1] == "!")
        return {int(m[1]): (m[2], m.string[m.end() :]) for m in matches if m}

    def of_line(self, text: str) -> Location | None:
        """The location that a line's ``!dbg`` (or a debug record's last operand) names."""
        if "!dbg " in text:
            if match := _DBG.search(text):
                return self.location(int(match[1]))
            if inline := _INLINE.search(text):
                return self._read(inline[1], frozenset())
        elif "#dbg_" in text and (record := _RECORD.search(text.rstrip())):
            return self.location(int(record[1]))
        return None

    def _resolve(self, number: int, visited: frozenset[int] = frozenset()) -> Location | None:
        kind, body = self._nodes.get(number, ("", ""))
        if kind == "DILocation":
            return self._read(body, visited | {number})
        if kind == "DISubprogram":
            return self._read(f"{body}, scope: !{number}", visited | {number})
        return None

    def _read(self, body: str, visited: frozenset[int]) -> Location | None:
        numbers = dict(_NUMBER.findall(body))
        line = int(numbers.get("line", 0))
        if line == 0:
            return None
        references = {key: int(value) for key, value in _REFERENCE.findall(body)}
        outer: Location | None = None
        call = references.get("inlinedAt")
        if call is not None and call not in visited and len(visited) < 256:
            outer = self._resolve(call, visited)
        file = self._file(references.get("scope", -1))
        column = int(numbers["column"]) if "column" in numbers else None
        return Location(file, line, column, outer)

    def _file_of(self, scope: int) -> str:
        visited: set[int] = set()
        while scope not in visited:
            visited.add(scope)
            kind, body = self._nodes.get(scope, ("", ""))
            if kind == "DIFile":
                return _path(body)
            references = {key: int(value) for key, value in _REFERENCE.findall(body)}
            scope = references.get("file", references.get("scope", -1))
        return ""


def _path(body: str) -> str:
    parts = {key: unescape(value, _HEX, 16) for key, value in _TEXT.findall(body)}
    name = parts.get("filename", "")
    folder = parts.get("directory", "")
    return f"{folder.rstrip('/')}/{name}" if folder and name[:1] != "/" else name


_STRING = re.compile(r'"[^"]*"')
_QUOTED_VALUE = re.compile(r'([%@])"([^"]*)"')
_ASSIGNED = re.compile(r'\s*+(%(?:[\w$.\-]++|"[^"]*"))\s*+=\s*+')
_WORD = re.compile(r"[a-z][\w.]*+")
_WORDS = re.compile(r"[a-z]\w*+")
_VALUE = re.compile(r"%[\w$.\-]++")
_LABEL_USE = re.compile(r"\blabel %([\w$.\-]++)")
_PHI_BLOCK = re.compile(r",\s*+%[\w$.\-]++\s*+\]")
_LABEL = re.compile(r'([\w$.\-]++|"[^"]*"):')
_CALLEE = re.compile(r"@([\w$.\-]++)\s*+\(")
_NAME = re.compile(r'@(?:([\w$.\-]++)|"([^"]*)")')
_PARAMETER = re.compile(r"(%[\w$.\-]++)\s*+[,)]")

PREFIXES = frozenset(("tail", "musttail", "notail"))
FLAGS = words(
    "nuw nsw exact disjoint inbounds nusw nneg samesign fast nnan ninf nsz arcp contract afn "
    "reassoc volatile atomic weak tail musttail notail cleanup"
)
_COMPARED = frozenset(("icmp", "fcmp", "atomicrmw"))
_TOP = words(
    "define declare target source_filename attributes module deplibs uselistorder uselistorder_bb"
)
INSTRUCTIONS = words(
    "ret br switch indirectbr invoke callbr resume catchswitch catchret cleanupret unreachable "
    "fneg add fadd sub fsub mul fmul udiv sdiv fdiv urem srem frem shl lshr ashr and or xor "
    "extractelement insertelement shufflevector extractvalue insertvalue alloca load store fence "
    "cmpxchg atomicrmw getelementptr trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp "
    "ptrtoint ptrtoaddr inttoptr bitcast addrspacecast icmp fcmp phi select freeze call va_arg "
    "landingpad catchpad cleanuppad tail musttail notail"
)


def parse_llvm(text: str) -> Listing:
    """Parse a module. Declarations have no body and are no functions of it."""
    texts = text.split("\n")
    reader = _LlvmReader(texts)
    lines: list[Line] = []
    for n, line_text in enumerate(texts, 1):
        lines.append(reader.line(n, line_text))
        reader.pass_line(n, line_text)
    reader.end(len(texts))
    return Listing("llvm", lines, tuple(reader.functions))


class _LlvmReader:
    """Reads lines of one module, whose metadata and named types are looked up by name."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.metadata = Metadata(texts)
        # Names of types (``%struct.x = type …``) look like values where they are used.
        self.types = frozenset(
            t.partition(" ")[0] for t in texts if t[:1] == "%" and " = type " in t
        )
        self.functions: list[Function] = []
        self.name = ""
        self.first = 0
        self.entry = True
        """The function whose definition began last; ``first`` is 0 where it has ended."""
        self.inside = self.listed = False
        """In a function's body; in a switch's further lines."""

    def pass_line(self, n: int, text: str) -> None:
        if text.startswith("define "):
            self.end(n - 1)
            match = _NAME.search(text)
            self.name = (match[1] or match[2]) if match else ""
            self.first = n
            self.entry = "ptx_kernel" in text or "internal" not in text
            self.inside = text.rstrip().endswith("{")
        elif text[:1] == "}":
            self.end(n)
        elif self.listed:
            self.listed = text.lstrip()[:1] != "]"
        elif self.inside:
            self.listed = text.rstrip()[-1:] == "[" and "switch " in text

    def end(self, last: int) -> None:
        if self.first:
            self.functions.append(Function(self.name, self.first, last, self.entry))
        self.first = 0
        self.inside = False
        self.listed = False

    def line(self, n: int, text: str) -> Line:
        stripped = text.strip()
        if not stripped:
            return Line(n, text, Kind.BLANK)
        first = stripped[0]
        if first == ";":
            return Line(n, text, Kind.COMMENT)
        if stripped.startswith("#dbg_"):
            record = stripped.partition("(")[0]
            source = self.metadata.of_line(stripped)
            return Line(n, text, Kind.DIRECTIVE, record, record, source=source)
        if not self.inside:
            return self._top_level_line(n, text, stripped)
        if first in "}{":
            return Line(n, text, Kind.DIRECTIVE)
        if self.listed:
            return Line(n, text, Kind.INSTRUCTION)
        if text[:1] not in " \t" and (label := _LABEL.match(stripped)):
            return Line(n, text, Kind.LABEL, label=label[1].strip('"'))
        return self._instruction_line(n, text, stripped)

    def _top_level_line(self, n: int, text: str, stripped: str) -> Line:
        word = _WORD.match(stripped)
        if stripped.startswith("define "):
            name = _NAME.search(stripped)
            label = (name[1] or name[2]) if name else None
            code = _STRING.sub('""', stripped.partition("!dbg")[0])
            defs = dict.fromkeys(_PARAMETER.findall(code))
            source = self.metadata.of_line(stripped)
            line_fields = ("define", "define", tuple(defs), (), source, label)
            return Line(n, text, Kind.DIRECTIVE, *line_fields)
        if stripped[0] in "!@$^}" or (word and word[0] in _TOP) or " = type " in stripped:
            return Line(n, text, Kind.DIRECTIVE)
        line = self._instruction_line(n, text, stripped)
        is_known_instruction = line.kind is Kind.UNKNOWN or line.base in INSTRUCTIONS
        return line if is_known_instruction else Line(n, text, Kind.UNKNOWN)

    def _instruction_line(self, n: int, text: str, stripped: str) -> Line:
        if '"' in stripped:
            stripped = _STRING.sub('""', _QUOTED_VALUE.sub(_unquoted_name, stripped))
        code = stripped.partition(" ;")[0] if ";" in stripped else stripped
        source = self.metadata.of_line(text) if "!dbg" in text else None
        defs: tuple[str, ...] = ()
        position = 0
        if assigned := _ASSIGNED.match(code):
            defs = (assigned[1],)
            position = assigned.end()
        word = _WORDS.match(code, position)
        if word is None or (word[0] not in INSTRUCTIONS and not defs):
            return Line(n, text, Kind.UNKNOWN, source=source)
        base, opcode, position = _opcode(code, word)
        operands_text = code[position:]
        if ", !" in operands_text:
            operands_text = operands_text[: operands_text.index(", !")]
        targets, operands_text = self._split_targets(n, base, operands_text)
        uses: tuple[str, ...] = ()
        if "%" in operands_text:
            uses = tuple(
                dict.fromkeys(v for v in _VALUE.findall(operands_text) if v not in self.types)
            )
        return Line(n, text, Kind.INSTRUCTION, base, opcode, defs, uses, source, None, targets)

    def _split_targets(self, n: int, base: str, operands_text: str) -> tuple[tuple[str, ...], str]:
        """The labels and the function that an instruction goes to, and the text of its values."""
        targets: tuple[str, ...] = ()
        if "label %" in operands_text:
            if base == "switch" and operands_text.rstrip().endswith("["):
                operands_text += self._rest_of_switch(n)
            targets = tuple(dict.fromkeys(_LABEL_USE.findall(operands_text)))
            operands_text = _LABEL_USE.sub("", operands_text)
        if base == "phi":
            operands_text = _PHI_BLOCK.sub("]", operands_text)
        elif base in ("call", "invoke", "callbr"):
            callee = _CALLEE.search(operands_text)
            if callee:
                targets += (callee[1],)
                if callee[1].startswith("llvm.dbg."):
                    operands_text = ""
        return targets, operands_text

    def _rest_of_switch(self, n: int) -> str:
        later_lines = self.texts[n:]
        ends = (k for k, text in enumerate(later_lines, 1) if text.lstrip()[:1] in "]}")
        return " ".join(later_lines[: next(ends, len(later_lines))])


def _unquoted_name(match: re.Match[str]) -> str:
    """A quoted name as a plain one, its odd characters as ``_``."""
    return match[1] + re.sub(r"[^\w$.\-]", "_", match[2])


def _opcode(code: str, word: re.Match[str]) -> tuple[str, str, int]:
    """Base, opcode with its flags (``add nuw nsw``, ``icmp slt``), and where they end."""
    words = [word[0]]
    base = word[0]
    end = word.end()
    while following := _WORDS.match(code, end + 1):
        if base in PREFIXES:
            base = following[0]
        elif following[0] not in FLAGS and not (
            base in _COMPARED and words[-1] in FLAGS | _COMPARED
        ):
            break
        words.append(following[0])
        end = following.end()
    return base, " ".join(words), end
