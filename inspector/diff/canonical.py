"""The canonical form of a function, in which names are replaced by their roles.

Names are numbered in the order in which they first appear, which is the same for two functions
iff there is one bijection between their names that makes the one into the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from inspector.diff import read_ptx, read_sass
from inspector.diff.forms import Aliases, CanonicalForm, Forms, read_source
from inspector.diff.read_ir import llvm_aliases, mlir_aliases, read_llvm, read_mlir
from inspector.listing.line import Function, Listing

Read = Callable[[Listing, list[str], int, Function | None, Aliases], Forms]

READERS: dict[str, Read] = {
    "ptx": read_ptx.read_ptx,
    "sass": read_sass.read_sass,
    "ttir": read_mlir,
    "ttgir": read_mlir,
    "llvm": read_llvm,
}
"""By ``Listing.language``; any other is read as a source."""


ALIASES: dict[str, Callable[[Listing], Aliases]] = {
    "ttir": mlir_aliases,
    "ttgir": mlir_aliases,
    "llvm": llvm_aliases,
}


def aliases_of(listing: Listing) -> Aliases:
    """The aliases of a listing (``#blocked``, ``!5``) and their definitions."""
    find = ALIASES.get(listing.language)
    return find(listing) if find else {}


def canonical(
    listing: Listing,
    function: Function | None = None,
    span: tuple[int, int] | None = None,
    aliases: Aliases | None = None,
) -> Forms:
    """The forms of a function, of lines ``span`` (both counted in), or of the whole listing.

    ``aliases`` are those of the listing, where they are known already.
    """
    if aliases is None:
        aliases = aliases_of(listing)
    if span is None:
        span = (function.first, function.last) if function else (1, len(listing.lines))
    first, last = max(1, span[0]), min(span[1], len(listing.lines))
    texts = listing.texts(first, last)
    return READERS.get(listing.language, read_source)(listing, texts, first, function, aliases)


def exact(listing: Listing, span: tuple[int, int]) -> Forms:
    """Every line as it is written, blank ones and comments too."""
    first, last = span
    forms = [CanonicalForm(line.n, line.text, ()) for line in listing.lines[first - 1 : last]]
    return Forms(first, last, tuple(forms), language="exact")


def class_of(forms: Forms, name: str) -> str:
    """What a name is a name of: a register file, a declared type, a kind of label."""
    name = name.partition("@")[0] or name
    if forms.language == "ptx":
        return read_ptx.class_of(name, forms.classes)
    if forms.language == "sass":
        return read_sass.class_of(name, forms.classes)
    return name[0]


def digest(listing: Listing, function: Function | None = None) -> bytes:
    """16 bytes that are equal iff two functions have the same canonical form (or a collision).

    Of the whole listing without ``function``.
    """
    return digest_of(canonical(listing, function))


def digest_of(forms: Forms) -> bytes:
    """``digest`` of forms that have been read already."""
    state = blake2b("\n".join(numbered(forms)).encode("utf-8", "surrogatepass"), digest_size=16)
    return state.digest()


def numbered(forms: Forms) -> Sequence[str]:
    """Every line's key followed by its names' numbers, the first of each with its class."""
    out: list[str] = []
    numbers: dict[str, str] = {}
    add, aliases = out.append, forms.aliases
    get = numbers.get
    for _, key, names in forms.forms:
        add(key)
        for name in names:
            number = get(name)
            if number is None:
                if name in aliases:
                    number = numbers[name] = "=" + aliases[name]
                    add(number)
                else:
                    number = numbers[name] = str(len(numbers))
                    add(f"{number}:{class_of(forms, name)}")
            else:
                add(number)
    return out
