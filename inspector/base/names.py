"""Names as they are typed and read.

Base names of mangled functions, short names of kernels, shortest prefixes of digests, and lists of
names and arguments in one text.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MARKS = re.compile(r"[,()\[\]{}<>]")


def commas(text: str, opening: str, closing: str) -> Iterator[int]:
    """Where the commas of ``text`` are that stand outside every bracket."""
    depth = 0
    for mark in _MARKS.finditer(text):
        depth += (mark[0] in opening) - (mark[0] in closing)
        if mark[0] == "," and depth <= 0:
            yield mark.start()


def at_commas(text: str, opening: str, closing: str) -> list[str]:
    """The parts of ``text`` between those commas, without the space around them."""
    edges = [-1, *commas(text, opening, closing), len(text)]
    return [text[start + 1 : end].strip() for start, end in pairwise(edges)]


_STATIC = re.compile(r"_ZZ\w{1,400}?E(?P<length>\d{1,3})(?P<name>[A-Za-z_]\w*)")
"""``_ZZ7softmaxPfE4tile``: a static variable of a C++ function, mangled."""


def static_name(symbol: str) -> str:
    """What the program calls a static variable of a function; other symbols stay as they are."""
    for match in _STATIC.finditer(symbol):
        if match.end() == len(symbol) and int(match["length"]) == len(match["name"]):
            return match["name"]
    return symbol


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """``Did you mean list?`` of a word that nobody knows; "" where no other is like it."""
    from difflib import get_close_matches  # most commands need it for nothing

    begins = word[: len(word) - len(word.lstrip("-"))]  # which any two options have in common
    undashed = [name.removeprefix(begins) for name in names]
    near = get_close_matches(word.removeprefix(begins), undashed, n=1, cutoff=0.7)
    return f"Did you mean {begins}{near[0]}?" if near else ""


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
    match = _NESTED.match(symbol)
    if not match:
        return symbol
    remaining, name = match[2], ""
    while length_match := _LENGTH.match(remaining):
        size = int(length_match[1])
        start = length_match.end()
        if size == 0 or start + size > len(remaining):
            break
        name, remaining = remaining[start : start + size], remaining[start + size :]
        if not match[1]:
            break
        if remaining.startswith("I"):
            remaining = _after_arguments(remaining)
    return name or symbol


def _after_arguments(text: str) -> str:
    """What follows template arguments; nothing where their end cannot be found."""
    depth, position = 0, 0
    while position < len(text):
        if text[position] == "L":
            # A literal (Li4E): its digits are a value, and no length of a name.
            position = text.find("E", position) + 1
            if position == 0:
                break
        elif match := _LENGTH.match(text, position):
            position = match.end() + int(match[1])
        else:
            depth += (text[position] in _OPENING) - (text[position] == "E")
            position += 1
            if depth == 0:
                return text[position:]
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
    ordered = sorted(set(digests))
    out: dict[str, str] = {}
    for n, digest in enumerate(ordered):
        neighbours, need = ordered[max(n - 1, 0) : n] + ordered[n + 1 : n + 2], SHORTEST
        while need < len(digest) and any(other.startswith(digest[:need]) for other in neighbours):
            need += 1
        out[digest] = digest[:need]
    return out


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
    operation = _operation(inner)
    function_name = base.rpartition("::")[2] or base
    short = (f"{function_name}<{operation}>" if operation else function_name) or name
    return short if len(short) <= MAX_NAME_CHARS else f"{short[: MAX_NAME_CHARS - 1]}…"


def template_arguments(demangled: str) -> str:
    """``8, at::native::FillFunctor<float>`` of the instance of a template; "" of no template."""
    return _split(_ANONYMOUS.sub("", demangled))[1]


def _split(text: str) -> tuple[str, str]:
    """The name before template or function arguments, and the template arguments."""
    opening = next((n for n, c in enumerate(text) if c in "<("), len(text))
    if opening == len(text) or text[opening] == "(":
        return text[:opening], ""
    depth = 0
    for n in range(opening, len(text)):
        depth += (text[n] == "<") - (text[n] == ">" and text[n - 1] != "-")
        if depth == 0:
            return text[:opening], text[opening + 1 : n]
    return text[:opening], text[opening + 1 :]


def _operation(arguments: str) -> str:
    """The first word among template arguments that says what is computed."""
    for part in re.split(r"[<>,()&]", arguments):
        word = part.strip().removesuffix("::").rpartition("::")[2].strip()
        if word and not _PLAIN.match(part.strip()) and not _PLAIN.match(word):
            return word
    return ""


def granted(specialization: object) -> str:
    """What Triton's compiler took for granted of an argument: ``:16`` of ``[["tt.divisibility",
    16]]``, a multiple of it; ``=1`` of ``[["constant", 1]]``."""
    parts = specialization if isinstance(specialization, list | tuple) else ()
    pairs = (part for part in parts if isinstance(part, list | tuple) and len(part) == 2)
    return "".join(f"{'=' if word == 'constant' else ':'}{value}" for word, value in pairs)
