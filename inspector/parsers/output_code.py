"""Inductor's texts: graphs of torch.fx, and the kernels, calls and buffers of ``output_code``.

Above the nodes that came of a line of the user's, ``print_readable`` writes which it is::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)

``output_code`` is read line by line with plain patterns; it is never executed. Comments in it name
the nodes of the last graph that went into a kernel.
"""

import ast
import base64
import hashlib
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inspector.base.stage import Location
from inspector.parsers.line import Kind, Line, Listing

Place = tuple[str, int, str]
"""File, line and code."""

# From torch 2.15 on a backward node is said to be of a forward node's place.
_FILE = re.compile(
    r"# (?:Annotation: .{0,4096}? )?(?:Backward of forward node: )?"
    r"File: (.{1,4096}?):(\d{1,9})(?= in |, code: )"
)
_NODE = re.compile(r"\s++(\w{1,400})(?:: ?\"[^\"\n]*\")? = (.*)")
_CALL = re.compile(r"([A-Za-z_][\w.]{0,400})\(")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w{0,400}(?![\w(.=])")
_WORDS = frozenset(("None", "True", "False"))


def parse_fx(text: str, language: str) -> Listing:
    """Parse a printed graph; a node's line has the user's line as ``source``."""
    rows = enumerate(_lines_with_places(text), 1)
    return Listing(language, [_line(n, line_text, place) for n, (line_text, place) in rows])


def graph_lines(text: str) -> dict[str, Place | None]:
    """The user's line of each node of a printed graph. Never raises."""
    out: dict[str, Place | None] = {}
    for line, place in _lines_with_places(text):
        if match := _NODE.match(line):
            out.setdefault(match[1], place)
    return out


def parse_plain(text: str, language: str) -> Listing:
    lines = [
        Line(n, line_text, Kind.UNKNOWN if line_text.strip() else Kind.BLANK)
        for n, line_text in enumerate(text.split("\n"), 1)
    ]
    return Listing(language, lines)


def _lines_with_places(text: str) -> Iterator[tuple[str, Place | None]]:
    """The lines of a printed graph, with the user's line that each came of."""
    place: Place | None = None
    for line in text.split("\n"):
        unindented = line.lstrip()
        if match := _FILE.match(unindented):
            place = match[1], int(match[2]), unindented[match.end() :].partition(", code: ")[2]
        elif unindented.startswith(("# No stacktrace", "def ", "class ", "return ")):
            # The function's own line, and what it returns, came of no line of the user's.
            place = None
        yield line, place


def _line(n: int, text: str, place: Place | None) -> Line:
    stripped = text.strip()
    if not stripped:
        return Line(n, text, Kind.BLANK)
    if stripped.startswith("#"):
        return Line(n, text, Kind.COMMENT)
    match = _NODE.match(text.rstrip("\r"))
    if match is None:
        return Line(n, text, Kind.INSTRUCTION, *_opcode(stripped))
    right = match[2].partition(";")[0]
    names = _NAME.findall(_QUOTED.sub("", right))
    uses = tuple(dict.fromkeys(name for name in names if name not in _WORDS))
    source = None if place is None else Location(*place[:2])
    return Line(n, text, Kind.INSTRUCTION, *_opcode(right), (match[1],), uses, source)


def _opcode(text: str) -> tuple[str | None, str | None]:
    """What is called: its last word but the overload's, and the whole."""
    match = _CALL.match(text)
    if match is None:
        return None, None
    name = match[1].removeprefix("torch.ops.")
    return name.removeprefix("aten.").partition(".")[0], name


# Patterns without nested repetition: linear on any input.
_DEFINED = re.compile(r"^(\w{1,400}) = async_compile\.(\w+)\(\s*(?:(['\"])(\w*)\3\s*,)?")
_CALLED = re.compile(r"^\s++(?:(\w{1,400})\.run\(|(?:\w{1,400} = )?(\w{1,400})\()")
_EXTERN = re.compile(
    r"^\s++(?:[\w, ()]{1,400} = )?(extern_kernels|aten|prims|torch\.ops\.(\w{1,100}))"
    r"\.(\w{1,400})(?:\.\w{1,100})?\("
)
_AOT = re.compile(r"^# AOT ID: \['([^']{1,100})'\]")
_PATH = "# kernel path: "
# Above the copy of a kernel that the user wrote: its own file, and the line where it begins there.
_ORIGINAL = re.compile(r"^# Original path: (.{1,4096}):(\d{1,9})$")
_COMMENT = re.compile(r"^\s*# (?:Topologically Sorted|Unsorted) Source Nodes: \[")
_ATEN = "], Original ATen: ["
_FRAGMENT = re.compile(r"#   %(\w{1,400}) :.*? = call_function\[target=(?:torch\.ops\.)?([^\]\n]*)")
_BECAME = re.compile(r"#   (\w{1,400}) => ([\w, ]+)")
_ORIGIN = {"triton": "inductor", "multi_kernel": "inductor", "cpp": "cpp", "cpp_pybinding": "cpp"}
_ALLOCATED = re.compile(
    r"^\s++(\w{1,400}) = empty_strided\w{0,40}"
    r"\(\(([^()]{0,2000})\), \(([^()]{0,2000})\), (.{0,200})"
)
_DTYPE = re.compile(r"\btorch\.(\w{1,40})")
_REUSED = re.compile(r"^\s++(\w{1,400}) = (?:reinterpret_tensor\()?(\w{1,400})\b.{0,4000}# reuse")
_POOLED = re.compile(r"^\s++(\w{1,400}) = alloc_from_pool\((\w{1,400})\b")
_OUT = re.compile(r"\bout=(?:reinterpret_tensor\()?(\w{1,400})")
_WORD = re.compile(r"[A-Za-z_]\w{0,399}")


@dataclass(frozen=True, slots=True)
class Comment:
    """Inductor's comment on what a kernel was made from.

    ``ops`` are the program's operators (``aten.mul``), ``names`` the nodes of Dynamo's graph,
    ``nodes`` those of the last graph with the operator of each (``aten.mul.Tensor``), ``became``
    which of these each of ``names`` became.
    """

    ops: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()
    became: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel that ``output_code`` defines or calls.

    ``origin`` is ``inductor``, ``cpp`` or ``extern``; ``path`` the file that Inductor says that it
    wrote the kernel to, ``copy`` the name of the one that the quoted text goes to: of a template
    the two texts differ in blanks at the ends of lines. ``body`` is the line of ``output_code``
    that holds the first line of the kernel's own text, which that file repeats; ``last`` the last
    line of it. ``comment`` is what Inductor wrote above its definition (or, of an extern kernel,
    above its call), ``launches`` the lines of the wrapper that call it.

    Of a kernel that the user wrote, ``written`` is its own file and the line that it begins at
    there, ``symbol`` its own name and ``definition`` the line of ``output_code`` with its ``def``.

    Of a kernel in AOTInductor's C++, ``warps`` and ``shared`` are what it is launched with, None
    where that is not a number there; ``signature`` types by name.
    """

    name: str
    origin: str
    path: str | None = None
    line: int | None = None
    body: int | None = None
    last: int | None = None
    comment: Comment = Comment()
    launches: tuple[int, ...] = ()
    written: tuple[str, int] | None = None
    symbol: str | None = None
    definition: int | None = None
    copy: str | None = None
    warps: int | None = None
    shared: int | None = None
    signature: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WrapperCall:
    """A line that launches a kernel or calls an operator of a library.

    ``name`` is the kernel's, or the operator's without ``aten`` before it, ``library`` what the
    wrapper calls the operator's library. ``words`` are the names on the line, ``written_names``
    those that it may write: of a kernel all, of a library's operator what it is assigned to.
    ``comment`` is Inductor's above it.
    """

    n: int
    name: str
    library: str = ""
    words: tuple[str, ...] = ()
    written_names: tuple[str, ...] = ()
    comment: Comment = Comment()


@dataclass(frozen=True, slots=True)
class OutputCode:
    """Kernels in the order of the wrapper's calls, then those defined and never called."""

    aot_id: str | None
    kernels: tuple[KernelText, ...]
    calls: tuple[WrapperCall, ...] = ()


@dataclass(frozen=True, slots=True)
class WrapperBuffer:
    """A buffer that the wrapper makes: new memory, or that of ``reuses`` (a buffer, or a pool).

    ``elements`` is how many there are from its first to its last, None where that is known only
    when it runs.
    """

    n: int
    name: str
    dtype: str | None = None
    elements: int | None = None
    reuses: str | None = None


@dataclass(frozen=True, slots=True)
class Wrapper:
    """What the wrapper does, in order."""

    calls: tuple[WrapperCall, ...] = ()
    buffers: tuple[WrapperBuffer, ...] = ()


def is_output_code(text: str) -> bool:
    """Whether a text is a graph's wrapper (and not one kernel's own file)."""
    head = text[:_HEAD]
    return "AsyncCompile" in head or head.lstrip().startswith("# AOT ID:")


def parse_wrapper(text: str) -> Wrapper:
    """Read what one graph's ``output_code`` does. Never raises."""
    buffers: dict[str, WrapperBuffer] = {}
    for n, line in enumerate(text.split("\n"), 1):
        if (buffer := _read_buffer(n, line, buffers)) is not None:
            buffers[buffer.name] = buffer
    return Wrapper(parse_code(text).calls, tuple(buffers.values()))


def parse_code(text: str) -> OutputCode:
    """Read one graph's ``output_code``: its Python, or AOTInductor's C++. Never raises."""
    if is_cpp(text):
        return OutputCode(None, cpp_kernels(text))
    reader = _CodeReader(text.split("\n"))
    reader.read()
    kernels = _ordered_kernels(reader.calls, reader.defined)
    return OutputCode(reader.aot_id, tuple(kernels), tuple(reader.calls))


class _CodeReader:
    """Reads Inductor's Python line by line, with what stands above the next definition."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.rows = enumerate(lines, 1)
        self.aot_id: str | None = None
        self.defined: dict[str, KernelText] = {}
        self.calls: list[WrapperCall] = []
        self._begin()

    def _begin(self) -> None:
        """Forget what stood above the last definition."""
        self.comment = Comment()
        self.nodes: list[tuple[str, str]] = []
        self.became: list[tuple[str, tuple[str, ...]]] = []
        self.path: str | None = None
        self.original_place: tuple[str, int] | None = None

    def read(self) -> None:
        for n, line in self.rows:
            if self._read_comment(line):
                continue
            if self.aot_id is None and (match := _AOT.match(line)):
                self.aot_id = match[1]
            elif match := _DEFINED.match(line):
                self._read_definition(n, line, match)
            elif called := _called_name(line, self.defined):
                words = tuple(dict.fromkeys(_WORD.findall(line)))
                written_names = _assigned_names(line) if called[1] else words
                self.calls.append(WrapperCall(n, *called, words, written_names, self.comment))
                self.comment = Comment()

    def _read_comment(self, line: str) -> bool:
        """Note what Inductor says of the next definition; whether the line says such a thing."""
        if match := _COMMENT.match(line):
            names, _, ops = line[match.end() :].partition(_ATEN)
            operators = _comma_separated(ops.rpartition("]")[0])
            self.comment = Comment(operators, _comma_separated(names))
            self.nodes = []
            self.became = []
        elif match := _BECAME.match(line):
            self.became.append((match[1], _comma_separated(match[2])))
        elif match := _FRAGMENT.match(line):  # #   %mul : … = call_function[target=…](args = …)
            self.nodes.append((match[1], match[2]))
        elif line.startswith(_PATH):
            self.path = line[len(_PATH) :].strip()
        elif match := _ORIGINAL.match(line):
            self.original_place = (match[1], int(match[2]))
        else:
            return False
        return True

    def _read_definition(self, n: int, line: str, match: re.Match[str]) -> None:
        """Read a kernel, with its text up to the closing quotes if it has one here."""
        quoted = "'''" in line
        end = n
        copy: str | None = None
        if quoted:
            end = next((k for k, row in self.rows if row.startswith("'''")), len(self.lines))
            if match[2] == "triton":
                copy = _copied_to("\n".join(("", *self.lines[n : end - 1], "")))
        kernel = KernelText(
            name=match[1],
            origin=_ORIGIN.get(match[2], "extern"),
            path=self.path,
            line=n,
            # The text begins right after the quotes: its first line is there.
            body=n if quoted else None,
            last=end,
            comment=replace(self.comment, nodes=tuple(self.nodes), became=tuple(self.became)),
            copy=copy,
        )
        if self.original_place is not None and quoted:  # the user's, which Inductor copied
            symbol = match[4] or match[1]
            head = f"def {symbol}("
            definition_lines = (k for k in range(n, end - 1) if self.lines[k].startswith(head))
            definition = next(definition_lines, None)
            kernel = replace(
                kernel,
                path=self.path or copy,
                written=self.original_place,
                symbol=symbol,
                definition=None if definition is None else definition + 1,
            )
        self.defined[match[1]] = kernel
        self._begin()


def _called_name(line: str, defined: Mapping[str, KernelText]) -> tuple[str, str] | None:
    """What a line calls, and what the library of it is called."""
    if match := _EXTERN.match(line):
        namespace = match[2] or match[1]
        is_known_library = namespace in ("extern_kernels", "aten")
        return match[3] if is_known_library else f"{namespace}.{match[3]}", match[1]
    match = _CALLED.match(line)
    name = "" if match is None else match[1] or match[2]
    return (name, "") if name in defined else None


def _ordered_kernels(
    calls: Iterable[WrapperCall], defined: Mapping[str, KernelText]
) -> Iterable[KernelText]:
    launches: dict[tuple[str, str], list[int]] = defaultdict(list)
    unique: dict[tuple[str, str], KernelText] = {}
    for call in calls:
        if call.library in ("", "extern_kernels"):
            kernel = KernelText(call.name, "extern") if call.library else defined[call.name]
            key = kernel.origin, kernel.name
            launches[key].append(call.n)
            unique.setdefault(key, kernel)
            if call.library:  # a library's function may be called for several operators
                comment = _joined(unique[key].comment, call.comment)
                unique[key] = replace(unique[key], comment=comment)
    for kernel in defined.values():
        unique.setdefault((kernel.origin, kernel.name), kernel)
    return (replace(kernel, launches=tuple(launches[key])) for key, kernel in unique.items())


def _assigned_names(line: str) -> tuple[str, ...]:
    """What a library's operator gives: names before ``=``, and those after ``out=``."""
    head, is_assigned, _ = line.partition("(")[0].partition(" = ")
    out = _WORD.findall(head) if is_assigned else []
    return tuple(dict.fromkeys((*out, *_OUT.findall(line))))


def _read_buffer(n: int, line: str, earlier: dict[str, WrapperBuffer]) -> WrapperBuffer | None:
    if match := _ALLOCATED.match(line):
        dtype = _DTYPE.search(match[4])
        name = None if dtype is None else dtype[1]
        return WrapperBuffer(n, match[1], name, _elements(match[2], match[3]))
    if match := _REUSED.match(line):
        reused = earlier.get(match[2])
        dtype_and_elements = (None, None) if reused is None else (reused.dtype, reused.elements)
        return WrapperBuffer(n, match[1], *dtype_and_elements, match[2])
    if match := _POOLED.match(line):
        return WrapperBuffer(n, match[1], reuses=match[2])
    return None


def _elements(shape: str, strides: str) -> int | None:
    parts = [*_comma_separated(shape), *_comma_separated(strides)]
    if len(_comma_separated(shape)) != len(_comma_separated(strides)) or not all(
        p.isascii() and p.isdecimal() and len(p) < 19 for p in parts
    ):
        return None
    sizes = map(int, _comma_separated(shape))
    steps = map(int, _comma_separated(strides))
    spans = list(zip(sizes, steps, strict=True))
    empty = any(size == 0 for size, _ in spans)
    return 0 if empty else 1 + sum((size - 1) * step for size, step in spans)


def _comma_separated(text: str) -> tuple[str, ...]:
    parts = (part.strip() for part in text.split(","))
    return tuple(part for part in parts if part)


def _copied_to(quoted: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unknown escapes in foreign code
        text = _literal(f"'''{quoted}'''") if "\\" in quoted else quoted
    if not isinstance(text, str):
        return None
    digest = hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
    return f"c{base64.b32encode(digest)[:51].decode().lower()}.py"


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _joined(a: Comment, b: Comment) -> Comment:
    pairs = ((a.ops, b.ops), (a.names, b.names))
    ops, names = (tuple(dict.fromkeys((*x, *y))) for x, y in pairs)
    return Comment(ops, names, tuple(dict.fromkeys((*a.nodes, *b.nodes))))


_CPP_DEFINED = re.compile(r"^(\s{0,64})async_compile\.triton\('(\w{1,400})', '''")
_CPP_CALLED = re.compile(r"^\s{1,64}(?:(?:launch|call)_)?(\w{1,400})\(")
# extern "C"  void  cpp_fused_gelu_sum_0(const float* in_ptr0,
_CPP_FUNCTION = re.compile(r'^extern "C"\s{1,8}void\s{1,8}(\w{1,400})\(')
_CPP_LAUNCHED = re.compile(
    r"^\s{1,64}launchKernel\((?:kernels_?\.)?(\w{1,400}), [^,]{1,400}, [^,]{1,400}, [^,]{1,400},"
    r" (\d{1,9}), (\d{1,9}),"
)
_HEAD = 20_000


def is_cpp(text: str) -> bool:
    """Whether a text is AOTInductor's C++."""
    return "aoti_runtime" in text[:_HEAD] or "torch/csrc/inductor/" in text[:_HEAD]


def cpp_kernels(text: str) -> tuple[KernelText, ...]:
    """The kernels of AOTInductor's C++ in the order of their definitions: Triton's in comments of
    the wrapper, C++ in the text of kernels. Never raises."""
    lines = text.split("\n")
    kernels: dict[str, KernelText] = {}
    calls: dict[str, list[int]] = {}
    launched: dict[str, tuple[int, int]] = {}
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if match := _CPP_DEFINED.match(line):
            first = n
            while n < len(lines) and not re.match(r"^\s{0,64}'''", lines[n]):
                n += 1
            python = "\n".join(row.removeprefix(match[1]) for row in lines[first:n])
            n += 1
            last = min(n, len(lines))
            path = _copied_to(f"\n{python}\n")
            kernel = KernelText(match[2], "inductor", path, first, first, last)
            kernels.setdefault(match[2], replace(kernel, signature=_signature(python)))
        elif match := _CPP_FUNCTION.match(line):
            kernels[match[1]] = KernelText(match[1], "cpp", line=n, last=_end_of_function(lines, n))
        elif match := _CPP_LAUNCHED.match(line):
            launched.setdefault(match[1], (int(match[2]), int(match[3])))
        elif match := _CPP_CALLED.match(line):
            calls.setdefault(match[1], []).append(n)
    out = []
    for name, kernel in kernels.items():
        warps, shared = launched.get(name, (None, None))
        out.append(replace(kernel, launches=tuple(calls.get(name, ())), warps=warps, shared=shared))
    return tuple(out)


def _end_of_function(lines: Sequence[str], first: int) -> int:
    """The last line of a C++ function, or of its declaration, that begins at a line."""
    has_body = False
    for n in range(first, len(lines) + 1):
        line = lines[n - 1].rstrip()
        has_body = has_body or line.endswith("{")
        if line.startswith("}") or (not has_body and line.endswith(");")):
            return n
    return len(lines)


def _signature(body: str) -> Mapping[str, str] | None:
    match = re.search(r"'signature': (\{[^{}]{0,100000}\})", body)
    value = None if match is None else _literal(match[1])
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else None
