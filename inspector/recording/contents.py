"""Reads recorded content: its digest and text, and what PTX and CUDA C++ say of their kernels."""

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Mapping

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import Content
from inspector.recording.decoding import as_map, as_text
from inspector.system import files

Blob = Callable[[object], Content | None]
"""The content that a field of an event names, None if it names none."""

# .target sm_90a
_TARGET = re.compile(rb"^[^\S\n]*+\.target\s++([\w.]++)", re.MULTILINE)
DIGEST_CHARS = 64
"""Length of a content's name, its SHA-256 in hex."""
MAX_PROLOGUE_CHARS = 2000
"""Characters between ``__global__`` and a kernel's name: launch bounds, a template, a type."""
# void square_kernel
_NAME = re.compile(r"(?<!\w)(\w++)\s*+$")


def inflated(content: Content, max_bytes: int | None = None) -> bytes:
    """The elements of a tensor, which a probe has compressed. Raises ``Unreadable``: also for one
    that is cut short, larger than ``max_bytes``, or larger than any content may be."""
    limit = files.limits().one if max_bytes is None else min(max_bytes, files.limits().one)
    reader = zlib.decompressobj()
    try:
        elements = reader.decompress(content.read(), limit + 1)
    except zlib.error as error:
        raise Unreadable(f"a tensor of the recording is damaged: {error}") from None
    if not reader.eof or len(elements) > limit:
        reason = "larger than it may be" if len(elements) > limit else "cut short"
        raise Unreadable(f"a tensor of the recording is {reason}")
    return elements


def digest_of(content: Content | None) -> str:
    """The SHA-256 of a content; "" of none, or of one that cannot be read."""
    data = _read(content)
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _read(content: Content | None) -> bytes | None:
    try:
        return None if content is None else content.read()
    except PtxviewError:
        return None


def text_of(content: Content | None) -> str:
    """The text of a content; "" of none, or of one that cannot be read."""
    return (_read(content) or b"").decode("utf-8", "surrogateescape")


def cuda_kernels(text: str) -> tuple[str, ...]:
    """Names of the ``__global__`` functions of CUDA C++, as they are written there."""
    names: dict[str, None] = {}
    for match in re.finditer("__global__", text):
        head = re.sub(
            r"__launch_bounds__\s*\([^()]*\)",
            " ",
            text[match.end() : match.start() + MAX_PROLOGUE_CHARS],
        )
        name = _NAME.search(head.partition("(")[0]) if "(" in head else None
        if name:
            names[name[1]] = None
    return tuple(names)


def cuda_span(text: str, name: str) -> tuple[int, int] | None:
    """Lines of a kernel in CUDA C++: from ``__global__`` to the brace that closes its body."""
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", text):
        # Launch bounds, templates and a return type stand between, never a page of them.
        start = text.rfind("__global__", max(0, match.start() - MAX_PROLOGUE_CHARS), match.start())
        between = text[start : match.start()] if start >= 0 else ";"
        if ";" not in between and "}" not in between:
            depth, brace = 0, text.find("{", match.end())
            end = brace
            for end in range(max(brace, 0), len(text)):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                if depth == 0:
                    break
            return text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
    return None


def target_of(ptx: Content | None, metadata: Mapping[str, object]) -> str | None:
    if match := _TARGET.search((_read(ptx) or b"")[:65536]):
        return match[1].decode()
    arch = as_map(metadata.get("target")).get("arch")
    return f"sm_{arch}" if isinstance(arch, int) else as_text(arch)


def strings(value: object) -> Iterator[str]:
    """Yield every text of a JSON value, names of members too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from strings([*map(str, value), *value.values()])
    elif isinstance(value, list | tuple):
        for member in value:
            yield from strings(member)


def content_names(value: object) -> Iterator[str]:
    """Yield every text that may name a content."""
    return (text for text in strings(value) if len(text) == DIGEST_CHARS)
