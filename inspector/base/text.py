"""Texts for people: harmless on a terminal, names as they are typed and read, and errors.

``shown`` draws a control character as its picture (``␛``), and anything else without a visible
shape (direction marks, joiners, bytes that were not UTF-8) as its number. Names are base names of
mangled functions, short names of kernels and shortest prefixes of digests. An error has a sentence,
what to do about it, and an exit status.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in order; keys in the order of their first."""
    out: dict[K, list[V]] = {}
    for key, value in pairs:
        out.setdefault(key, []).append(value)
    return out


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


def word_for(count: int, word: str) -> str:
    """``load`` for one, ``loads`` of others; ``accesses``, ``copies``, ``results of LDG``."""
    if count == 1:
        return word
    head, separator, complement = word.partition(" of ")
    if head.endswith(("s", "ch")):
        return f"{head}es{separator}{complement}"
    if head.endswith("y") and head[-2:-1] not in "aeiou":  # copies, but days
        return f"{head[:-1]}ies{separator}{complement}"
    return f"{head}s{separator}{complement}"


def plural(count: int, word: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {word_for(count, word)}"


def counted(count: int, word: str) -> str:
    """``1 request``, ``1,823 requests``."""
    return f"{count:,} {word_for(count, word)}"


_QUOTED = re.compile(r"(?:\w+: )?at \d{1,9}:\d{1,9}:$")


def first_error(text: str) -> str:
    """The line of an error's text that says what went wrong; "" of an empty one.

    Torch says first whose backend raised it (``backend='inductor' raised:``), and Triton first
    where it is and quotes the source up to a caret (``CompilationError: at 2:34:``).
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(" raised:"):
        lines = lines[1:]
    if lines and _QUOTED.match(lines[0]) and "^" in lines[1:-1]:
        kind, colon, _ = lines[0].partition(": at ")
        sentence = lines[lines.index("^") + 1]
        return f"{kind}: {sentence}" if colon else sentence
    return lines[0] if lines else ""


_PLACE = re.compile(r"\S{1,4096}:\d{1,9} in \S{1,400}")
MAX_GUARD_CHARS = 600


def guard_parts(text: str) -> tuple[str, str, str, tuple[str, ...]]:
    """One of torch's guards: what is compared, the line that made it, where that line is, and
    torch's hints, which follow it as ``(HINT: …)``."""
    text, _, tail = text.partition(" (HINT: ")
    hints = tail.strip().removesuffix(")").split(") (HINT: ") if tail else []
    guard_text, _, place = (part.strip() for part in text.rpartition(" # "))
    if not _PLACE.fullmatch(place):
        guard_text, place = text, ""
    guard, _, code = (part.strip()[:MAX_GUARD_CHARS] for part in guard_text.partition(" # "))
    return guard, code, place, tuple(hint[:MAX_GUARD_CHARS] for hint in hints)


def some(names: Sequence[str], limit: int = 3) -> str:
    """``a``, ``a and b``, ``a, b, c and 4 more``."""
    hidden_count = len(names) - limit
    if hidden_count > 0:
        return f"{', '.join(names[:limit])} and {hidden_count} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def symbol(char: str) -> str:
    """One character that must not reach a terminal, as a text that may."""
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogate escape
        return f"‹{code - 0xDC00:02X}›"
    return f"‹U+{code:04X}›"


def harmless(char: str) -> bool:
    """Whether a character only draws itself, or leaves a space."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def shown(text: str) -> str:
    """One line of text with every control character made visible; a tab stays a tab."""
    if text.isprintable() or text.replace("\t", " ").isprintable():
        return text
    return "".join(c if c == "\t" or harmless(c) else symbol(c) for c in text)


def lines_shown(text: str) -> str:
    """Several lines of text, each as ``shown`` makes it."""
    return text if text.isprintable() else "\n".join(map(shown, text.split("\n")))


def visible(value: object) -> object:
    """A value of JSON with each text, names of members too, as ``lines_shown`` makes it."""
    if isinstance(value, str):
        return lines_shown(value)
    if isinstance(value, list | tuple):
        return [visible(item_value) for item_value in value]
    if isinstance(value, Mapping):
        return {lines_shown(str(name)): visible(item_value) for name, item_value in value.items()}
    return value


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """``Did you mean list?`` of a word that nobody knows; "" where no other is like it."""
    from difflib import get_close_matches  # most commands need it for nothing

    begins = word[: len(word) - len(word.lstrip("-"))]  # which any two options have in common
    undashed = [name.removeprefix(begins) for name in names]
    near = get_close_matches(word.removeprefix(begins), undashed, n=1, cutoff=0.7)
    return f"Did you mean {begins}{near[0]}?" if near else ""


def kibibytes(count: int) -> str:
    """Bytes of a block's memory: ``97 KiB``, ``1.02 KiB``, ``512 B``, ``0``."""
    if count < 1024:
        return f"{count} B" if count else "0"
    if count >= 999.5 * 1024:  # of any size: a damaged file may hold what no float does
        return f"{(count + 512) // 1024:,} KiB"
    return f"{count / 1024:.3g} KiB"


def seconds(value: float) -> str:
    """``1.25 s``, ``38 ms``, ``0.4 ms``."""
    if value >= 0.9995:
        return f"{value:.2f} s" if value < 99.995 else f"{value:,.0f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.00995 else f"{value * 1000:.1f} ms"


def microseconds(us: float) -> str:
    """µs to as many places as are worth reading: ``1.38``, ``30.4``, ``1,234``."""
    return f"{us:.2f}" if us < 9.995 else f"{us:.1f}" if us < 999.95 else f"{us:,.0f}"


def time_span(us: float) -> str:
    """A time with its unit: ``9,628 µs``, ``13.9 ms``, ``1,477 ms``, ``12.3 s``."""
    if us < 1e4:
        return f"{microseconds(us)} µs"
    return f"{microseconds(us / 1e3)} ms" if us < 1e7 else f"{microseconds(us / 1e6)} s"


SECRETS = ("secret", "passw", "credential", "api-key", "apikey", "access-key", "accesskey")


def _is_secret(name: str) -> bool:
    """Whether an option or a variable names a secret: ``--hf-token``, ``WANDB_API_KEY``; a language
    model's ``--max-tokens`` and ``--tokenizer`` do not."""
    dashed_name = name.lower().replace("_", "-").replace(".", "-")
    is_name = dashed_name.replace("-", "").isalnum()  # else it is code, or a path
    return is_name and (
        dashed_name.endswith("token") or any(secret in dashed_name for secret in SECRETS)
    )


def without_secrets(words: Iterable[str]) -> list[str]:
    """A command line as it is recorded: what ``--api-key`` and ``HF_TOKEN=`` are given is ``…``.

    ``probes/writer.py`` does the same to each process's own.
    """
    out: list[str] = []
    hides = False
    for word in words:
        name, equals, _ = word.partition("=")
        option = word.startswith("-")
        secret = (equals != "" or option) and _is_secret(name)
        out.append(f"{name}=…" if secret and equals else "…" if hides and not option else word)
        hides = secret and not equals
    return out


def ended_by(status: int | None) -> str:
    """``ended by SIGSEGV (status 139)`` of a status that a signal gives; else ""."""
    import signal

    try:
        return f"ended by {signal.Signals((status or 0) - 128).name} (status {status})"
    except ValueError:
        return ""


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


class Exit(IntEnum):
    """Exit statuses of every command but ``run``, which gives the program's own."""

    OK = 0
    DIFFERENT = 1
    USAGE = 2
    MISSING = 3
    UNREADABLE = 4
    RUN_FAILED = 125
    INTERRUPTED = 130


class PtxviewError(Exception):
    """An error with a message for the user and a hint at what to do.

    ``message`` is one sentence; ``hint`` is what to do next, or "" if nothing can be done.
    """

    status = Exit.UNREADABLE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(PtxviewError):
    """The command line asks for something that cannot be meant."""

    status = Exit.USAGE


class ToolMissing(PtxviewError):
    """A program or a device that is needed is not on this machine."""

    status = Exit.MISSING


class Unreadable(PtxviewError):
    """Input that exists but cannot be read as what it should be."""


class RunFailed(PtxviewError):
    """``run`` itself failed, before or beside the user's program."""

    status = Exit.RUN_FAILED


class Stopped(PtxviewError):
    """The user stopped what was under way."""

    status = Exit.INTERRUPTED
