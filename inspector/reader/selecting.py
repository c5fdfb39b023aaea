"""KERNEL selectors: a name, a glob, a variant id's prefix, ``NAME#2``, ``#13`` of a title."""

import difflib
import fnmatch
from collections.abc import Callable, Iterator

from msgspec import Struct

from inspector.base.errors import UsageError
from inspector.base.model import Call, Graph, Kernel, Origin, Recording, Variant
from inspector.base.names import base_name, granted
from inspector.base.text import shown
from inspector.recording.layout import SUFFIX

Found = tuple[Kernel, Variant]
HEX = frozenset("0123456789abcdef")
# Fewer letters of a digest than these are a word that happens to be hex.
MIN_PREFIX_CHARS = 4


def names(kernel: Kernel) -> tuple[str, ...]:
    plain = kernel.demangled.split("(")[0].split("<")[0].split()[-1:]
    own = (kernel.id, kernel.name, kernel.demangled, kernel.called, *plain, base_name(kernel.name))
    return tuple(dict.fromkeys(own))


def select(recording: Recording, selector: str | None) -> tuple[Found, ...]:
    """All variants that a selector fits, in the order of the list; None fits every one."""
    everything = recording.variants()
    if selector is None:
        return everything
    name, mark, number = selector.rpartition("#")
    if mark and number.isascii() and number.isdecimal():
        if not name:  # ``#13``, as titles of Inductor's kernels begin
            numbered = (f for f in everything if f[0].origin is Origin.INDUCTOR)
            return tuple(f for f in numbered if f[0].name.endswith(f"_{number}"))
        of_name = [f for f in everything if name in names(f[0])]
        at = int(number) if len(number) < 19 else 0
        return tuple(of_name[at - 1 : at]) if at > 0 else ()
    exact = tuple(f for f in everything if selector in names(f[0]))
    low = selector.lower()
    is_prefix = len(low) >= MIN_PREFIX_CHARS and HEX.issuperset(low)
    by_id = tuple(f for f in everything if is_prefix and f[1].hash.startswith(low))
    return (
        exact
        or by_id
        or tuple(
            f for f in everything if any(fnmatch.fnmatchcase(n, selector) for n in names(f[0]))
        )
    )


MAX_LISTED_VARIANTS = 60  # variants that are listed where one must be named


def select_one(recording: Recording, selector: str | None) -> Found:
    """The one variant that a selector means. Raises ``UsageError`` with choices or near names."""
    variants = select(recording, selector)
    if len(variants) == 1:
        return variants[0]
    if not variants:
        raise UsageError(*_nothing(recording, selector))
    lines = "\n".join(f"  {choice(f, variants)}" for f in variants[:MAX_LISTED_VARIANTS])
    if len(variants) > MAX_LISTED_VARIANTS:
        lines += f"\n  … and {len(variants) - MAX_LISTED_VARIANTS:,} more: ptxview list shows them"
    what = f"{selector} fits" if selector else f"{recording.path} holds"
    raise UsageError(f"{what} {len(variants)} variants; name one of them:", lines)


def choice(found: Found, among: tuple[Found, ...] = ()) -> str:
    """How to name one variant, with what tells it from the others."""
    kernel, variant = found
    config = " ".join(
        f"{k}={v}" for k, v in variant.config.items() if k != "flags" and v is not None
    )
    same = [f for f in among if f[1].hash == variant.hash]
    handle = variant.id if len(same) < 2 else kernel.called
    apart, failed = " ".join(_apart(found, among)), "" if variant.error is None else "(failed)"
    parts = (f"{handle:<12} {kernel.called}", variant.target or "", config)
    return shown("  ".join((*parts, *filter(None, (apart, failed)))).rstrip())


def _apart(found: Found, among: tuple[Found, ...]) -> Iterator[str]:
    """Types and assumptions of arguments that tell a variant from those with its settings."""
    kernel, variant = found
    alike = [
        other
        for of, other in among
        if of.name == kernel.name
        and (other.config, other.target) == (variant.config, variant.target)
    ]
    for name, kind in variant.signature.items():
        if len({other.signature.get(name) for other in alike}) > 1:
            yield f"{name}: {kind}"
    for name, said in variant.specialization.items():
        tag = granted(said)
        if tag and any(granted(other.specialization.get(name)) != tag for other in alike):
            yield f"{name}{tag}"


class Selection(Struct, frozen=True):
    """Where to look for what: a path, None for the newest recording; a selector, None for all."""

    path: str | None
    selector: str | None


def place(word: str, exists: Callable[[str], bool]) -> Selection:
    """What one word of the command line means: PATH, PATH::KERNEL or KERNEL.

    An existing path wins over a kernel of that name. Names of C++ have ``::`` in them too, so the
    longest beginning that exists is the path.
    """
    if exists(word):
        return Selection(word, None)
    at = word.rfind("::")
    while at > 0:
        if exists(word[:at]):
            return Selection(word[:at], word[at + 2 :] or None)
        at = word.rfind("::", 0, at)
    return Selection(None, word)


def select_graph(recording: Recording, selector: str | None) -> Graph | None:
    """The graph of that id, or None."""
    return next((g for g in recording.graphs if g.id == selector), None)


def select_calls(recording: Recording, selector: str) -> tuple[Call, ...]:
    """The calls of the graph, or of the extension's function or module, that a glob fits."""
    out = []
    for call in recording.calls:
        module, _, function = call.name.rpartition(".")
        names = (call.name, module, function) if call.kind == "extension" else (call.name,)
        if any(n and (n == selector or fnmatch.fnmatchcase(n, selector)) for n in names):
            out.append(call)
    return tuple(out)


def _nothing(recording: Recording, selector: str | None) -> tuple[str, str]:
    if not recording.kernels:
        return f"{recording.path} holds no kernels", "Did the program compile any?"
    bare = [k for k in recording.kernels if selector in names(k)]
    if bare or selector is None:
        of = "; ".join(g.id for g in recording.graphs)
        hint = f"Its graph's text can be shown: --stage output_code with one of {of}" if of else ""
        return f"no compilation of {selector or 'any kernel'} was recorded", hint
    known = [n for k in recording.kernels for n in names(k)]
    path, _, kernel = selector.rpartition(":")
    # Whether it is there is not asked: who may see our files need not see all of this machine.
    if kernel and (path.endswith(SUFFIX) or path == recording.path):
        return f"no kernel or variant is called {selector}", f"Did you mean {path}::{kernel}?"
    near = difflib.get_close_matches(selector, dict.fromkeys(known), n=3, cutoff=0.4)
    return (
        f"no kernel or variant is called {selector}",
        f"Did you mean {' or '.join(shown(n) for n in near)}?"
        if near
        else "ptxview list shows what there is.",
    )
