"""Text of unknown make, fit for a terminal: what it would obey is shown, and obeyed by nobody.

A control character is drawn as its picture (``␛``), anything else without a visible shape
(direction marks, joiners, bytes that were not UTF-8) as its number.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def word_for(count: int, word: str) -> str:
    """``load`` for one, ``loads`` of others; ``accesses``, ``copies``, ``results of LDG``."""
    if count == 1:
        return word
    head, of, rest = word.partition(" of ")
    if head.endswith(("s", "ch")):
        return f"{head}es{of}{rest}"
    if head.endswith("y") and head[-2:-1] not in "aeiou":  # copies, but days
        return f"{head[:-1]}ies{of}{rest}"
    return f"{head}s{of}{rest}"


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
        said = lines[lines.index("^") + 1]
        return f"{kind}: {said}" if colon else said
    return lines[0] if lines else ""


def some(names: Sequence[str], most: int = 3) -> str:
    """``a``, ``a and b``, ``a, b, c and 4 more``."""
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} and {rest} more"
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
        return [visible(each) for each in value]
    if isinstance(value, Mapping):
        return {lines_shown(str(name)): visible(each) for name, each in value.items()}
    return value


def meant(word: str, known: Iterable[str]) -> str:
    """``Did you mean list?`` of a word that nobody knows; "" where no other is like it."""
    from difflib import get_close_matches  # most commands need it for nothing

    begins = word[: len(word) - len(word.lstrip("-"))]  # which any two options have in common
    bare = [one.removeprefix(begins) for one in known]
    near = get_close_matches(word.removeprefix(begins), bare, n=1, cutoff=0.7)
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


SECRETS = ("secret", "passw", "credential", "api-key", "apikey", "access-key", "accesskey")


def _is_secret(name: str) -> bool:
    """Whether an option or a variable names a secret: ``--hf-token``, ``WANDB_API_KEY``; a language
    model's ``--max-tokens`` and ``--tokenizer`` do not."""
    bare = name.lower().replace("_", "-").replace(".", "-")
    plain = bare.replace("-", "").isalnum()  # else it is code, or a path
    return plain and (bare.endswith("token") or any(secret in bare for secret in SECRETS))


def without_secrets(words: Iterable[str]) -> list[str]:
    """A command line as it is recorded: what ``--api-key`` and ``HF_TOKEN=`` are given is ``…``.

    ``probes/writer.py`` does the same to each process's own.
    """
    out: list[str] = []
    hides = False
    for word in words:
        name, given, _ = word.partition("=")
        option = word.startswith("-")
        secret = (given != "" or option) and _is_secret(name)
        out.append(f"{name}=…" if secret and given else "…" if hides and not option else word)
        hides = secret and not given
    return out


def ended_by(status: int | None) -> str:
    """``ended by SIGSEGV (status 139)`` of a status that a signal gives; else ""."""
    import signal

    try:
        return f"ended by {signal.Signals((status or 0) - 128).name} (status {status})"
    except ValueError:
        return ""
