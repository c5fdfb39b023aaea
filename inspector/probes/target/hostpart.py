"""The host's part of a CUDA C++ source: what is left for an ordinary C++ compiler.

Bodies of kernels become stubs that hand over their arguments, device functions lose theirs, and
launches become calls. What is written in a way that this does not know is left to nvcc's own front
end, which takes longer: in doubt a source is refused here, never changed in meaning.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .hostbuild import CannotRewrite, closing, kernel_start, masked

LAUNCHES = re.compile(r"<<<(?!<)((?:(?!<<<).)*?)>>>\s*+\(", re.DOTALL)
# What may stand with parentheses of its own between __global__ and a kernel's parameters.
_QUALIFIERS = ("__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__",
               "__attribute__", "__align__", "alignas", "__declspec")  # fmt: skip
# Sources that only nvcc's front end knows: kernels by their address, lambdas, managed variables,
# and headers that bring kernels of their own.
_LEFT_TO_NVCC = re.compile(
    r"\bcudaLaunch\w*Kernel|\bcudaFuncGetAttributes|\bcudaOccupancy|\b__managed__|\btexture\s*<|"
    r"\]\s*(?:__host__\s*)?__device__|#\s*include\s*[<\"](?:cub|thrust|cuda/std|cute|cutlass)/"
)
_LOCAL_HEADER = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_DEVICE_CODE = re.compile(r"\b__(?:global|device|constant|shared)__\b|<<<")
_TOKEN = re.compile(r"[A-Za-z_]\w*+|::|\.\.\.|\S")
_UNNAMED = (
    "int",
    "unsigned",
    "float",
    "double",
    "char",
    "short",
    "long",
    "bool",
    "const",
    "volatile",
)


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def rewrite(source: str, path: Path, symbol: str) -> str:
    """The host's part; ``symbol`` names the PTX in the object, and ``symbol``_end where it ends.

    Raises CannotRewrite.
    """
    text = masked(source)
    _refuse_others(source, text, path)
    module = "ptxview_module()"
    bodies: list[_Edit] = []
    for match in re.finditer(r"\b__global__\b", text):
        bodies.append(_Edit(match.start(), match.end(), ""))
        bodies += _kernel(source, text, match.end(), module)
    inside = [(e.start, e.end) for e in bodies if e.text]
    others: list[_Edit] = []
    for n, match in enumerate(re.finditer(r"\b__(?:device|constant)__\b", text)):
        if not any(a <= match.start() < b for a, b in inside):
            others += _device(text, match.start(), match.end(), module, n)
    inside += [(e.start, e.end) for e in others if e.end > e.start]
    launches = [
        edit for edit in _launches(source, text) if not any(a <= edit.start < b for a, b in inside)
    ]
    header = (
        "#include <ptxview_stubs.h>\n"
        f'extern "C" __attribute__((visibility("hidden"))) const char {symbol}[], {symbol}_end[];\n'
        "static inline ::ptxview_cuda::Module ptxview_module() "
        f"{{ return {{{symbol}, uint64_t({symbol}_end - {symbol})}}; }}\n"
    )
    return f'{header}#line 1 "{path}"\n' + _applied(source, [*bodies, *others, *launches])


def _refuse_others(source: str, text: str, path: Path) -> None:
    other = _LEFT_TO_NVCC.search(text) or _LEFT_TO_NVCC.search(_without_comments(source))
    if other:
        raise CannotRewrite(f"it has {other[0].strip()[:40]!r}")
    for header in _LOCAL_HEADER.findall(_without_comments(source)):
        try:
            brought = (path.parent / header).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it lies elsewhere: a kernel in it does not compile here
        if _DEVICE_CODE.search(masked(brought)):
            raise CannotRewrite(f"{header} has device code")


def _without_comments(source: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)


def _applied(source: str, edits: list[_Edit]) -> str:
    pieces, done = [], 0
    for edit in sorted(edits):
        if edit.start < done:
            raise CannotRewrite("one thing to rewrite lies within another")
        pieces += [source[done : edit.start], edit.text]
        done = edit.end
    return "".join([*pieces, source[done:]])


def _launches(source: str, text: str) -> list[_Edit]:
    """``k<<<g, b>>>(a)`` as ``(configure(g, b), k(a))``: positions of what is put in."""
    edits = []
    for match in LAUNCHES.finditer(text):
        begin, end = kernel_start(text, match.start()), closing(text, match.end())
        edits += [
            _Edit(
                begin,
                begin,
                f"(::ptxview_cuda::configure({source[match.start(1) : match.end(1)]}), ",
            ),
            _Edit(match.start(), match.end() - 1, ""),
            _Edit(end, end, ")"),
        ]
    return edits


# -- kernels ---------------------------------------------------------------------------------------


def _kernel(source: str, text: str, after: int, module: str) -> list[_Edit]:
    """The body of the kernel whose ``__global__`` ends at ``after``, as a stub."""
    limit = _directive_end(text, after)
    opening = _parameters(text, after, limit)
    if opening is None:
        raise CannotRewrite("a kernel's parameters were not found")
    end = closing(text, opening + 1)
    brace = _skip(text, end)
    if text[brace : brace + 1] == ";":
        return []
    if text[brace : brace + 1] != "{":
        raise CannotRewrite("what follows a kernel's parameters is not known")
    last = _block(text, brace)
    if limit is not None and last > limit:
        raise CannotRewrite("a kernel that begins in a macro")
    edits: list[_Edit] = []
    names: list[tuple[str, bool]] = []
    for start, stop in _split(text, opening + 1, end - 1):
        name, pack = _name(text[start:stop].replace("\\\n", " "))
        if not name:
            name = f"ptxview_{len(names)}"
            edits.append(_Edit(stop, stop, f" {name}"))
        names.append((name, pack))
    said = ",".join(name for name, _ in names) if not any(pack for _, pack in names) else ""
    given = "".join(f", {name}{'...' if pack else ''}" for name, pack in names)
    broken = source[brace:last].count("\n") * ("\n" if limit is None else "\\\n")
    stub = (
        "{ struct ptxview_here {}; "
        f'::ptxview_cuda::stub({module}, typeid(ptxview_here), "{said}"{given}); {broken}}}'
    )
    return [*edits, _Edit(brace, last, stub)]


def _directive_end(text: str, at: int) -> int | None:
    """Where the ``#define`` ends that the position lies in; None where it lies in none."""
    start = text.rfind("\n", 0, at) + 1
    while start >= 2 and text[start - 2] == "\\":
        start = text.rfind("\n", 0, start - 1) + 1
    if not text[start:at].lstrip().startswith("#"):
        return None
    end = text.find("\n", at)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("\n", end + 1)
    return end if end >= 0 else len(text)


def _parameters(text: str, after: int, limit: int | None) -> int | None:
    """Where the parameter list opens of the function whose declaration goes on at ``after``."""
    at, word = after, ""
    while True:
        token = _TOKEN.search(text, at)
        if token is None or (limit is not None and token.start() >= limit):
            return None
        if token[0] == "(":
            if word not in _QUALIFIERS:
                return token.start()
            at, word = closing(text, token.end()), ""
            continue
        if token[0] in ";{}=[#":
            return None
        if token[0][0].isalpha() or token[0][0] == "_":
            word = token[0]
        at = token.end()


def _skip(text: str, at: int) -> int:
    """Past white space, and lines that are continued."""
    while at < len(text) and (text[at].isspace() or text[at : at + 2] == "\\\n"):
        at += 1
    return at


def _block(text: str, brace: int) -> int:
    """Just past the brace that closes the one at ``brace``."""
    depth, at = 0, brace
    while at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return at
    raise CannotRewrite("a body that never closes")


def _split(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where each parameter lies."""
    if not text[start:end].replace("\\\n", " ").strip() or text[start:end].strip() == "void":
        return []
    parts, depth, at = [], 0, start
    for n in range(start, end):
        depth += (text[n] in "(<[{") - (text[n] in ")>]}")
        if text[n] == "," and not depth:
            parts.append((at, n))
            at = n + 1
    return [*parts, (at, end)]


def _name(parameter: str) -> tuple[str, bool]:
    """A parameter's name, empty where it has none, and whether it is a pack."""
    if "=" in parameter or "(" in parameter:
        raise CannotRewrite("a kernel's parameter of an unusual form")
    words = re.findall(r"[A-Za-z_]\w*|::|[<>*&]", parameter.partition("[")[0])
    pack = "..." in parameter
    if not words:
        raise CannotRewrite("a kernel's parameter of an unusual form")
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if not (last[0].isalpha() or last[0] == "_") or last in _UNNAMED or last == "__restrict__":
        if pack:
            raise CannotRewrite("a pack of parameters without a name")
        return "", False
    types = [w for w in words[:-1] if w not in ("const", "volatile", "struct", "class", "typename")]
    if before == "::" or not types:
        return "", False
    return last, pack


# -- what else is for the device -------------------------------------------------------------------


def _device(text: str, start: int, after: int, module: str, number: int) -> list[_Edit]:
    """A device function without its body, or a variable made known; nothing where in doubt."""
    limit = _directive_end(text, start)
    begin = max(text.rfind(c, 0, start) for c in ";{}") + 1
    opening = _parameters(text, after, limit)
    if opening is None:
        return _variable(text, begin, after, limit, module, number)
    end = closing(text, opening + 1)
    if "__host__" in text[begin:opening]:
        return []
    brace = text.find("{", end)
    if brace < 0 or re.search(r"[;:=]", text[end:brace].replace("::", "")):
        return []  # a declaration, or a constructor
    last = _block(text, brace)
    if limit is not None and last > limit:
        return []
    broken = text[brace:last].count("\n") * ("\n" if limit is None else "\\\n")
    return [_Edit(brace, last, ";" + broken)]


def _variable(
    text: str, begin: int, after: int, limit: int | None, module: str, number: int
) -> list[_Edit]:
    """``__constant__ float c[4];``: its registration follows it."""
    end = text.find(";", after)
    name = "" if end < 0 else _declared(text[after:end])
    if limit is not None or not name:
        raise CannotRewrite("a variable of the device's in an unusual form")
    if re.search(r"\b(?:extern|inline|template)\b", text[begin:after]):
        raise CannotRewrite("a variable of the device's that is not this source's alone")
    made = (
        f" static ::ptxview_cuda::Variable ptxview_variable_{number}"
        f'({module}, "{name}", &{name}, sizeof({name}));'
    )
    return [_Edit(end + 1, end + 1, made)]


def _declared(declaration: str) -> str:
    """The name that ``float c[4] = {1}`` declares; empty where that is not plain."""
    if len(_split(declaration, 0, len(declaration))) != 1:
        return ""
    for mark in "={[":
        declaration = declaration.partition(mark)[0]
    declaration = declaration.rstrip()
    start = len(declaration)
    while start and (declaration[start - 1].isalnum() or declaration[start - 1] == "_"):
        start -= 1
    kind, name = declaration[:start], declaration[start:]
    plain = kind.strip() and not kind.rstrip().endswith("::")
    return name if plain and ("(" not in kind or "align" in kind) and name.isidentifier() else ""
