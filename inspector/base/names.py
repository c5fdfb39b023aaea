"""Names as people type and read them: base names of mangled functions, short names of kernels,
shortest prefixes of digests."""

import re
from collections.abc import Iterable

from inspector.base.text import at_commas

SHORTEST = 8
_NUMBA_TAG = re.compile(r"\[abi:(?:v\d{1,9}|cw\w{1,400})\]")
_NESTED = re.compile(r"_Z(NK?)?L?(\d.*)", re.DOTALL)
_LENGTH = re.compile(r"L?([0-9]{1,6})")
# What opens something that an E closes, inside template arguments.
_OPENING = frozenset("INXJF")


def base_name(symbol: str) -> str:
    """``square_matrix_kernel`` for ``_Z20square_matrix_kernelPKfPfii``; others as they are.

    Itanium C++ ABI 5.1.2: a source name is its length and its letters; the last of a nested name
    is the function's own, and template arguments may stand between two.
    """
    found = _NESTED.match(symbol)
    if not found:
        return symbol
    rest, name = found[2], ""
    while match := _LENGTH.match(rest):
        size = int(match[1])
        start = match.end()
        if size == 0 or start + size > len(rest):
            break
        name, rest = rest[start : start + size], rest[start + size :]
        if not found[1]:
            break
        if rest.startswith("I"):
            rest = _after_arguments(rest)
    return name or symbol


def _after_arguments(text: str) -> str:
    """What follows template arguments; nothing where their end cannot be found."""
    depth, at = 0, 0
    while at < len(text):
        if text[at] == "L":
            # A literal (Li4E): its digits are a value, and no length of a name.
            at = text.find("E", at) + 1
            if at == 0:
                break
        elif match := _LENGTH.match(text, at):
            at = match.end() + int(match[1])
        else:
            depth += (text[at] in _OPENING) - (text[at] == "E")
            at += 1
            if depth == 0:
                return text[at:]
    return ""


def untagged(demangled: str) -> str:
    """A demangled name without the tags that numba puts into each: its counter, its flags' digest.

    ``[abi:v1][abi:cw51cXTLSUwv1s…]``: numba.core.itanium_mangler, numba.core.funcdesc. C++'s own
    tags, such as ``[abi:cxx11]``, stay.
    """
    return _NUMBA_TAG.sub("", demangled)


def argument_types(demangled: str) -> tuple[str, ...]:
    """The types in the last parentheses of a demangled name; () without any."""
    text = demangled.rstrip()
    if not text.endswith(")"):
        return ()
    depth = start = 0
    for start in range(len(text) - 1, -1, -1):
        depth += (text[start] in ")>]}") - (text[start] in "(<[{")
        if depth == 0:
            break
    types = at_commas(text[start + 1 : -1], "(<[{", ")>]}")
    return () if types in ([""], ["void"]) else tuple(types)


def shortest_ids(digests: Iterable[str]) -> dict[str, str]:
    """The shortest prefix of each digest that no other shares, of eight letters or more."""
    known = sorted(set(digests))
    out: dict[str, str] = {}
    for n, digest in enumerate(known):
        beside, need = known[max(n - 1, 0) : n] + known[n + 1 : n + 2], SHORTEST
        while need < len(digest) and any(other.startswith(digest[:need]) for other in beside):
            need += 1
        out[digest] = digest[:need]
    return out


# -- as a table has room for them -----------------------------------------------------------------

MAX_NAME_CHARS = 72  # characters of a short name

# What says nothing of which kernel it is.
_PLAIN = re.compile(
    r"^(?:-?[\d.]+(?:ul|u|l|f)?|\([\w:]+\)-?\d+|bool|char|short|int|long|unsigned.*|float|double|void|"
    r"true|false|c10::\w+|std::.*|__half|__nv_bfloat16|.*\*|at::detail::Array.*|OffsetCalculator.*|"
    r"TrivialOffset.*|\.\.\.|"
    # Templates around the operation of interest.
    r"BinaryFunctor|[AB]UnaryFunctor|ReduceOp|func_wrapper_t|GpuReduce.*)$"
)
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\{lambda[^}]*\}|<unnamed>::")


def short_name(name: str) -> str:
    """``vectorized_elementwise_kernel<pow_tensor_scalar_kernel_impl>`` of torch's long one.

    The function's own name, and of its template's arguments the first that names an operation.
    """
    text = _ANONYMOUS.sub("", name).strip()
    text = re.sub(r"^(?:void|auto|decltype\(auto\))\s+", "", text)
    base, inner = _split(text)
    found = _operation(inner)
    own = base.rpartition("::")[2] or base
    short = (f"{own}<{found}>" if found else own) or name
    return short if len(short) <= MAX_NAME_CHARS else f"{short[: MAX_NAME_CHARS - 1]}…"


def _split(text: str) -> tuple[str, str]:
    """The name before template or function arguments, and the template arguments."""
    at = next((n for n, c in enumerate(text) if c in "<("), len(text))
    if at == len(text) or text[at] == "(":
        return text[:at], ""
    depth = 0
    for n in range(at, len(text)):
        depth += (text[n] == "<") - (text[n] == ">" and text[n - 1] != "-")
        if depth == 0:
            return text[:at], text[at + 1 : n]
    return text[:at], text[at + 1 :]


def _operation(arguments: str) -> str:
    """The first word among template arguments that says what is computed."""
    for part in re.split(r"[<>,()&]", arguments):
        word = part.strip().removesuffix("::").rpartition("::")[2].strip()
        if word and not _PLAIN.match(part.strip()) and not _PLAIN.match(word):
            return word
    return ""


def granted(said: object) -> str:
    """What Triton's compiler took for granted of an argument: ``:16`` of ``[["tt.divisibility",
    16]]``, a multiple of it; ``=1`` of ``[["constant", 1]]``."""
    parts = said if isinstance(said, list | tuple) else ()
    pairs = (part for part in parts if isinstance(part, list | tuple) and len(part) == 2)
    return "".join(f"{'=' if word == 'constant' else ':'}{value}" for word, value in pairs)
