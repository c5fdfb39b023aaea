"""Reads the kernels of Inductor's ``output_code``: names, files, places and order of calls.

The text is read line by line with plain string tests; it is never executed.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

# Patterns without nested repetition: linear on any input.
_DEFINED = re.compile(r"^(\w{1,400}) = async_compile\.(\w+)\(\s*(?:(['\"])(\w*)\3\s*,)?")
_LAUNCHED = re.compile(r"^\s+(\w{1,400})\.run\(")
_CALLED = re.compile(r"^\s+(?:\w+ = )?(?:(extern_kernels)\.(\w+)|(\w+))\(")
_AOT = re.compile(r"^# AOT ID: \['([^']{1,100})'\]")
_PATH = "# kernel path: "
# Above the copy of a kernel that the user wrote: its own file, and the line where it begins there.
_ORIGINAL = re.compile(r"^# Original path: (.{1,4096}):(\d{1,9})$")
_NODES = "# Topologically Sorted Source Nodes: ["
_ATEN = "], Original ATen: ["
_NODE = re.compile(r"#   %(\w{1,400}) :")
_BECAME = re.compile(r"#   (\w{1,400}) => ([\w, ]+)")
_TARGET = " = call_function[target="
_ORIGIN = {"triton": "inductor", "multi_kernel": "inductor", "cpp": "cpp", "cpp_pybinding": "cpp"}


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


@dataclass(frozen=True, slots=True)
class OutputCode:
    """Kernels in the order of the wrapper's calls, then those defined and never called."""

    aot_id: str | None
    kernels: tuple[KernelText, ...]


def is_output_code(text: str) -> bool:
    """Whether a text is a graph's wrapper (and not one kernel's own file)."""
    head = text[:20000]
    return "AsyncCompile" in head or head.lstrip().startswith("# AOT ID:")


def parse(text: str) -> OutputCode:
    """Read one graph's ``output_code``: its Python, or AOTInductor's C++. Never raises."""
    if is_wrapper(text):
        return OutputCode(None, tuple(map(_of_cpp, kernels(text))))
    lines = text.split("\n")
    defined: dict[str, KernelText] = {}
    calls: list[KernelText] = []
    launches: dict[tuple[str, str], list[int]] = {}
    comment = Comment()
    nodes: list[tuple[str, str]] = []
    became: list[tuple[str, tuple[str, ...]]] = []
    aot: str | None = None
    path: str | None = None
    written: tuple[str, int] | None = None
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if aot is None and (match := _AOT.match(line)):
            aot = match[1]
        if line.lstrip().startswith(_NODES):
            comment, nodes, became = _comment(line.lstrip()), [], []
        elif renaming := _BECAME.match(line):
            became.append((renaming[1], _words(renaming[2])))
        elif node := _NODE.match(line):
            _add_node(nodes, node[1], line)
        elif line.startswith(_PATH):
            path = line[len(_PATH) :].strip()
        elif match := _ORIGINAL.match(line):
            written = (match[1], int(match[2]))
        elif match := _DEFINED.match(line):
            quote = line.rfind("'''")
            end = _end(lines, n) if quote >= 0 else n
            kernel = KernelText(
                name=match[1],
                origin=_ORIGIN.get(match[2], "extern"),
                path=path,
                line=n,
                # The text begins right after the quotes: its first line is there.
                body=n if quote >= 0 else None,
                last=end,
                comment=replace(comment, nodes=tuple(nodes), became=tuple(became)),
            )
            if kernel.body is not None and match[2] == "triton":
                copy = _copied_to("\n".join(("", *lines[kernel.body : end - 1], "")))
                kernel = replace(kernel, copy=copy)
            if written is not None and quote >= 0:
                kernel = _hand_written(kernel, written, match[4] or match[1], lines)
            defined[match[1]] = kernel
            path, n, comment, nodes, became = None, end, Comment(), [], []
            written = None
        elif match := _LAUNCHED.match(line) or _CALLED.match(line):
            called = _called(match, defined, comment)
            if called is not None:
                calls.append(called)
                launches.setdefault((called.origin, called.name), []).append(n)
                comment = Comment()
    unique: dict[tuple[str, str], KernelText] = {}
    for kernel in (*calls, *defined.values()):
        key = (kernel.origin, kernel.name)
        if key not in unique:
            unique[key] = replace(kernel, launches=tuple(launches.get(key, ())))
        elif kernel.origin == "extern":
            # A library's function may be called for several operators.
            unique[key] = replace(unique[key], comment=_joined(unique[key].comment, kernel.comment))
    return OutputCode(aot, tuple(unique.values()))


def _of_cpp(kernel: CppKernel) -> KernelText:
    """A kernel of a C++ wrapper, whose own file is named by the digest of its text."""
    path = _copied_to(f"\n{kernel.text}\n")
    return KernelText(
        kernel.name,
        "inductor",
        path,
        kernel.line,
        kernel.line,
        kernel.last,
        launches=kernel.launches,
    )


def _hand_written(
    kernel: KernelText, written: tuple[str, int], symbol: str, lines: Sequence[str]
) -> KernelText:
    """A kernel that the user wrote and Inductor copied."""
    first, last = kernel.body or 1, (kernel.last or 1) - 1
    start = f"def {symbol}("
    definition = next((n for n in range(first, last) if lines[n].startswith(start)), None)
    return replace(
        kernel,
        path=kernel.path or kernel.copy,
        written=written,
        symbol=symbol,
        definition=None if definition is None else definition + 1,
    )


def _copied_to(quoted: str) -> str | None:
    """The name of the file that Inductor writes a text to: the head of the text's own digest."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unknown escapes in foreign code
            text = ast.literal_eval(f"'''{quoted}'''") if "\\" in quoted else quoted
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(text, str):
        return None
    digest = hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
    return f"c{base64.b32encode(digest)[:51].decode().lower()}.py"


def _called(
    match: re.Match[str], defined: dict[str, KernelText], comment: Comment
) -> KernelText | None:
    """The kernel that a line of the wrapper calls, None if it calls something else."""
    if match.re is _CALLED and match[1]:
        return KernelText(match[2], "extern", comment=comment)
    return defined.get(match[3] if match.re is _CALLED else match[1])


def _comment(line: str) -> Comment:
    """``# Topologically Sorted Source Nodes: [mul, add], Original ATen: [aten.mul, aten.add]``."""
    names, _, ops = line[len(_NODES) :].partition(_ATEN)
    return Comment(_words(ops.rpartition("]")[0]), _words(names))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _add_node(nodes: list[tuple[str, str]], name: str, line: str) -> None:
    """Add the node of a comment line: ``#   %mul : … = call_function[target=…](args = …)``."""
    _, called, rest = line.partition(_TARGET)
    if called:
        nodes.append((name, rest.partition("]")[0].removeprefix("torch.ops.")))


def _joined(a: Comment, b: Comment) -> Comment:
    pairs = ((a.ops, b.ops), (a.names, b.names))
    ops, names = (tuple(dict.fromkeys((*x, *y))) for x, y in pairs)
    return Comment(ops, names, tuple(dict.fromkeys((*a.nodes, *b.nodes))))


def _end(lines: list[str], start: int) -> int:
    """The line (from 1) that closes the triple quotes opened before line index ``start``."""
    for n in range(start, len(lines)):
        if lines[n].startswith("'''"):
            return n + 1
    return len(lines)


# -- wrappers-in-C++ -------------------------------------------------------------------------------

_CPP_DEFINED = re.compile(r"^(\s{0,64})async_compile\.triton\('(\w{1,400})', '''")
_CLOSED = re.compile(r"^\s{0,64}'''")
_CPP_CALLED = re.compile(r"^\s{1,64}(?:launch|call)_(\w{1,400})\(")
_CPP_LAUNCHED = re.compile(
    r"^\s{1,64}launchKernel\((?:kernels_?\.)?(\w{1,400}), [^,]{1,400}, [^,]{1,400}, [^,]{1,400},"
    r" (\d{1,9}), (\d{1,9}),"
)
_SIGNATURE = re.compile(r"'signature': (\{[^{}]{0,100000}\})")
_HEAD = 20_000


@dataclass(frozen=True, slots=True)
class CppKernel:
    """A kernel's Python in the wrapper: the line that opens it, its last, and its text.

    ``launches`` are the lines that call what launches it. ``warps`` and ``shared`` are what it is
    launched with, None where that is not a number there; ``signature`` types by name.
    """

    name: str
    line: int
    last: int
    text: str
    launches: tuple[int, ...] = ()
    warps: int | None = None
    shared: int | None = None
    signature: Mapping[str, str] | None = None


def is_wrapper(text: str) -> bool:
    """Whether a text is AOTInductor's C++."""
    return "aoti_runtime" in text[:_HEAD] or "torch/csrc/inductor/" in text[:_HEAD]


def kernels(text: str) -> tuple[CppKernel, ...]:
    """The Triton kernels of a wrapper in the order of their definitions. Never raises."""
    lines = text.split("\n")
    texts: dict[str, tuple[int, int, str]] = {}
    calls: dict[str, list[int]] = {}
    launched: dict[str, tuple[int, int]] = {}
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        if match := _CPP_DEFINED.match(line):
            first, indent = n, match[1]
            while n < len(lines) and not _CLOSED.match(lines[n]):
                n += 1
            body = [x.removeprefix(indent) for x in lines[first:n]]
            n += 1
            texts.setdefault(match[2], (first, min(n, len(lines)), "\n".join(body)))
        elif match := _CPP_LAUNCHED.match(line):
            launched.setdefault(match[1], (int(match[2]), int(match[3])))
        elif match := _CPP_CALLED.match(line):
            calls.setdefault(match[1], []).append(n)
    out = []
    for name, (first, last, python) in texts.items():
        warps, shared = launched.get(name, (None, None))
        at = tuple(calls.get(name, ()))
        out.append(CppKernel(name, first, last, python, at, warps, shared, _signature(python)))
    return tuple(out)


def _signature(body: str) -> Mapping[str, str] | None:
    match = _SIGNATURE.search(body)
    if match is None:
        return None
    try:
        value = ast.literal_eval(match[1])
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else None
