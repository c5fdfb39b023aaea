"""Choosing variants: queries (``mm 512x256 spill>0 launched``) and KERNEL selectors.

A query has words and properties, all of which must hold. A word is what the screen shows: a number
(``#13``), a line of the program (``activations.py:66``, ``:66``), sizes (``512×256``), a part of a
name or an operator, or else a module of the model (``h.0.attn.c_proj``). A selector is a name, a
glob, a variant id's prefix, ``NAME#2``, or a query.
"""

import difflib
import fnmatch
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import PurePath

from msgspec import Struct

from inspector.analysis.representative import is_chosen, representative, result
from inspector.base.errors import UsageError
from inspector.base.escapes import shown
from inspector.base.model import EDIT, Call, Graph, Kernel, Recording, Stage, Variant
from inspector.base.names import base_name, did_you_mean, granted
from inspector.base.units import plural
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.recording.layout import SUFFIX, user_derived_cache
from inspector.system.printing import narrate
from inspector.system.process import side_by_side

Value = float | bool | str | Collection[str] | None
"""A property's value; None is unknown and matches nothing."""
Properties = Callable[[str], Value]
Measures = Callable[[str, Variant], float | None]

NUMBERS = {
    "regs": "registers of a thread",
    "spill": "bytes that a thread spills",
    "stack": "bytes of a thread's stack",
    "shared": "bytes of shared memory of a block",
    "occupancy": "theoretical occupancy in percent",
    "instr": "instructions of its SASS",
    "hints": "how many hints it has",
    "warps": "num_warps",
    "stages": "num_stages",
    "launches": "launches by the program",
    "time": "µs of a launch",
    "cost": "percent of all known time",
}
"""Compared with a number."""
WORDS = {
    "op": "an instruction of its PTX or SASS",
    "hint": "the rule of a hint",
    "dtype": "a tensor's or scalar's type",
    "origin": "triton, inductor, nvcc or extern",
    "file": "a source file of it",
    "module": "a module of the model",
}
FLAGS = {
    "launched": "the program launched it",
    "best": "an autotuner chose it",
    "failed": "it failed to compile or to load",
    "changed": "its kernel was compiled again after an edit",
}

_COMPARISON = re.compile(r"([a-z]+)(>=|<=|!=|>|<|=)(-?[0-9.]+)%?", re.IGNORECASE)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


_NUMBER = re.compile(r"#\d{1,9}")
"""``#13``."""
_PLACE = re.compile(r"(?:[^:.]*+\.[^:]*+)?:\d{1,9}")
"""``activations.py:66``, ``:66``."""
_SIZES = re.compile(r"\d{1,9}(?:x\d{1,9})+")
"""``512x256``."""


class Term(Struct, frozen=True):
    """One condition; ``relation`` is a comparison, ``:``, or "" for a flag or part of a name."""

    name: str
    relation: str = ""
    value: str = ""

    @property
    def is_name(self) -> bool:
        """Whether it is part of a name."""
        return not self.relation and self.name not in FLAGS

    def holds(self, properties: Properties) -> bool:
        """Whether a variant has the property; an unknown value never has."""
        value = properties("name" if self.is_name else self.name)
        if value is None:
            return False
        if self.relation == ":":
            texts = [value] if isinstance(value, str) else value
            assert isinstance(texts, Collection)
            if self.name == "module":
                return any(has_module(path, self.value) for path in texts)
            whole_word = re.compile(rf"(?<![^\W_]){re.escape(self.value)}(?![^\W_])", re.IGNORECASE)
            return any(whole_word.search(text) for text in texts)
        if self.relation:
            assert isinstance(value, int | float)
            return _OPERATORS[self.relation](value, float(self.value))
        return has_word(value, self.name) if isinstance(value, str) else bool(value)


def folded(text: str) -> str:
    """A text as words are looked for in it: without capitals, ``×`` as one types it."""
    return text.casefold().replace("×", "x")


def word_pattern(word: str) -> str:
    """The regular expression of a word for a folded text: ``#5`` is not in ``#54``."""
    folded_word = folded(word)
    escaped = re.escape(folded_word)
    is_whole = any(form.fullmatch(folded_word) for form in (_NUMBER, _PLACE, _SIZES))
    return rf"(?<!\d){escaped}(?!\d)" if is_whole else escaped


def has_word(text: str, word: str) -> bool:
    """Whether a folded text has a word of a query."""
    return re.search(word_pattern(word), text) is not None


def has_module(path: str, part: str) -> bool:
    """Whether ``transformer.h.0.attn.c_proj`` has ``h.0.attn`` or ``c_proj``, and not ``c``."""
    return f".{part.casefold()}." in f".{path.casefold()}."


def may_be_module(term: Term, kernels: Iterable[Kernel]) -> bool:
    """Whether a term is a word that no kernel's name has."""
    return term.is_name and not any(has_word(kernel_words(kernel), term.name) for kernel in kernels)


def with_modules(reader: Reader, terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms; words that no kernel's name has are the module that some kernel is from."""
    kernels = reader.recording.kernels
    resolved_terms = []
    for term in terms:
        is_module = may_be_module(term, kernels) and any(
            has_module(path, term.name)
            for kernel in kernels
            for path in reader.graphs.modules(kernel)
        )
        resolved_terms.append(Term("module", ":", term.name) if is_module else term)
    return tuple(resolved_terms)


def completions(query: str) -> list[tuple[str, str]]:
    """What the last word of a query may become, each with its meaning: ``spill>``, ``op:``."""
    last = query[query.rfind(" ") + 1 :].lower()
    meanings = {f"{name}>": meaning for name, meaning in NUMBERS.items()}
    meanings |= {f"{name}:": meaning for name, meaning in WORDS.items()} | FLAGS
    if last.startswith("hint:"):
        meanings = {f"hint:{rule}": "" for rule in table("hints")}
    return [
        (word, meaning)
        for word, meaning in meanings.items()
        if word.startswith(last) and word != last
    ]


def parse(query: str) -> tuple[Term, ...]:
    """The terms of a query, all of which must hold.

    Raises ``UsageError`` with the nearest property for an unknown one.
    """
    return tuple(map(_term, query.split()))


def _term(word: str) -> Term:
    if compared := _COMPARISON.fullmatch(word):
        name, relation, value = compared[1].lower(), compared[2], compared[3]
        if name not in NUMBERS:
            raise _unknown(name)
        try:
            float(value)
        except ValueError:
            raise UsageError(f"{shown(value)} is no number", f"Such as {name}>0.") from None
        return Term(name, relation, value)
    name, colon, value = word.partition(":")
    # A C++ name has two colons.
    if colon and not value.startswith(":") and not _PLACE.fullmatch(word):
        if name.lower() not in WORDS:
            raise _unknown(name)
        if not value:
            raise UsageError(f"{name}: names nothing", f"It is {WORDS[name.lower()]}.")
        return Term(name.lower(), ":", value)
    if re.search("[<>=]", word) and re.match(r"[a-z]+[<>=!]", word, re.IGNORECASE):
        name = re.split("[<>=!]", word)[0]
        if name.lower() in NUMBERS or did_you_mean(name, NUMBERS):
            raise UsageError(
                f"{shown(word)}: a comparison needs a number after it",
                "Such as regs>128; the comparisons are > >= < <= = !=.",
            )
    return Term(word.lower() if word.lower() in FLAGS else word)


def _unknown(name: str) -> UsageError:
    known_names = [*NUMBERS, *WORDS, *FLAGS]
    hint = did_you_mean(name, known_names) or f"Known are {', '.join(known_names)}."
    return UsageError(f"there is no property {shown(name)}", hint)


def needs_measures(terms: Sequence[Term]) -> bool:
    """Whether a term asks for what ``matching`` takes from ``measures``."""
    return any(term.relation and term.name in ("cost", "time") for term in terms)


def matching(
    reader: Reader,
    terms: Sequence[Term],
    pairs: Sequence[tuple[Kernel, Variant]],
    measures: Measures | None = None,
    on_progress: Callable[[], object] = lambda: None,
) -> Iterator[tuple[Kernel, Variant]]:
    """The variants for which all terms hold; what costs most to find out is asked last.

    ``measures`` returns the ``time`` and the ``cost`` of a variant; ``on_progress`` is called
    after each.
    """
    ordered = sorted(
        with_modules(reader, terms),
        key=lambda term: _SLOW_PROPERTIES.index(term.name) if term.name in _SLOW_PROPERTIES else -1,
    )

    def fits(pair: tuple[Kernel, Variant]) -> bool:
        properties = partial(_property, reader, *pair, measures)
        return all(term.holds(properties) for term in ordered)

    for pair, is_match in zip(pairs, side_by_side(fits, pairs), strict=True):
        on_progress()
        if is_match:
            yield pair


_RESOURCE_FIELDS = {
    "regs": ("registers",),
    "stack": ("stack_bytes",),
    "spill": ("spill_store_bytes", "spill_load_bytes"),
    "shared": ("static_shared_bytes", "dynamic_shared_bytes"),
}
"""The fields of ``Resources`` that a property adds up."""
_SLOW_PROPERTIES = ("module", "instr", "op", "occupancy", "hint", "hints")
_READ_PROPERTIES: Mapping[str, Callable[[Reader, Variant], Value]] = {
    "occupancy": lambda reader, variant: reader.facts.occupancy(variant),
    "op": lambda reader, variant: reader.facts.opcodes(variant),
    "instr": lambda reader, variant: reader.summaries.read_now(variant).instructions,
    "hint": lambda reader, variant: reader.summaries.read_now(variant).rules,
    "hints": lambda reader, variant: reader.summaries.read_now(variant).hints,
}
_RECORDED_PROPERTIES: Mapping[str, Callable[[Kernel, Variant], Value]] = {
    "warps": lambda _, variant: _option(variant, "num_warps"),
    "stages": lambda _, variant: _option(variant, "num_stages"),
    "dtype": lambda _, variant: _dtypes(variant),
    "file": lambda kernel, variant: _file_names(kernel, variant),
    "launches": lambda _, variant: variant.launches,
    "origin": lambda kernel, _: kernel.origin.value,
    "launched": lambda _, variant: bool(variant.launches),
    "best": lambda _, variant: (variant.autotune or {}).get("winner") is True,
    "failed": lambda _, variant: variant.error is not None,
    "changed": lambda kernel, _: any(EDIT in variant.config for variant in kernel.variants),
    "name": lambda kernel, _: kernel_words(kernel),
}


def _property(
    reader: Reader,
    kernel: Kernel,
    variant: Variant,
    measures: Measures | None,
    name: str,
) -> Value:
    if name == "module":
        return reader.graphs.modules(kernel)
    if name in _READ_PROPERTIES:
        return _READ_PROPERTIES[name](reader, variant)
    if name in _RECORDED_PROPERTIES:
        return _RECORDED_PROPERTIES[name](kernel, variant)
    if name in _RESOURCE_FIELDS:
        resources = reader.facts.resources(variant)
        figures = [getattr(resources, field) for field in _RESOURCE_FIELDS[name]]
        known_figures = [figure for figure in figures if figure is not None]
        return sum(known_figures) if known_figures else None
    assert name in ("time", "cost")
    return None if measures is None else measures(name, variant)


def _option(variant: Variant, name: str) -> int | None:
    """An option of Triton's that is a number."""
    value = variant.config.get(name)
    return value if isinstance(value, int) else None


def _dtypes(variant: Variant) -> list[str]:
    """Types of arguments, as recorded calls and the signature have them."""
    arguments = chain.from_iterable(call.arguments for call in variant.calls)
    types = [argument.dtype or argument.type or "" for argument in arguments]
    return [*types, *(text.lstrip("*") for text in variant.signature.values())]


def _file_names(kernel: Kernel, variant: Variant) -> list[str]:
    """Names of the files of its stages, and of the lines that it was made from."""
    paths = [stage_file.origin_path for stage_file in variant.stages.values()]
    if kernel.fusion is not None:
        paths += [part.file for part in kernel.fusion.made_from]
    return [PurePath(path).name for path in paths if path]


KernelVariant = tuple[Kernel, Variant]
HEX = frozenset("0123456789abcdef")
# Fewer letters of a digest than these are a word that happens to be hex.
MIN_PREFIX_CHARS = 4


def names(kernel: Kernel) -> tuple[str, ...]:
    short_names = kernel.demangled.split("(")[0].split("<")[0].split()[-1:]
    all_names = (
        kernel.id,
        kernel.name,
        kernel.demangled,
        kernel.display_name,
        *short_names,
        base_name(kernel.name),
    )
    return tuple(dict.fromkeys(all_names))


def kernel_words(kernel: Kernel) -> str:
    """The folded text in which words of a query are looked for: what titles show of a kernel."""
    parts = [*names(kernel), kernel.origin.value, *_places(kernel)]
    if kernel.number is not None:
        parts.append(f"#{kernel.number}")
    if kernel.fusion is not None:
        parts += kernel.fusion.ops
    written = result(representative(kernel.variants)) if kernel.variants else None
    if written is not None:
        sizes, dtype = written
        parts += ["x".join(map(str, sizes)), dtype]
    return folded(" ".join(parts))


def _places(kernel: Kernel) -> list[str]:
    """The lines that a generated kernel is from, or those of a function that the user wrote."""
    if kernel.fusion is not None:
        return [f"{PurePath(part.file).name}:{part.line}" for part in kernel.fusion.made_from]
    for variant in kernel.variants[:1]:
        source = variant.stages.get(Stage.SOURCE)
        span = variant.lines_in(Stage.SOURCE)
        if source is not None and source.origin_path and span is not None:
            first, last = span
            name = PurePath(source.origin_path).name
            return [f"{name}:{n}" for n in range(first, min(last, first + MAX_SPAN_LINES) + 1)]
    return []


def select(recording: Recording, selector: str | None) -> tuple[KernelVariant, ...]:
    """All variants that a selector fits, in the order of the list; None fits every one.

    Raises ``UsageError`` for a comparison that cannot be read.
    """
    everything = recording.variants()
    if selector is None:
        return everything
    name, mark, number = selector.rpartition("#")
    if mark and number.isascii() and number.isdecimal():
        return _by_number(everything, name, number)
    exact = tuple(pair for pair in everything if selector in names(pair[0]))
    if exact:
        return exact
    digest = selector.lower()
    if len(digest) >= MIN_PREFIX_CHARS and HEX.issuperset(digest):
        by_digest = tuple(pair for pair in everything if pair[1].hash.startswith(digest))
        if by_digest:
            return by_digest
    by_glob = tuple(pair for pair in everything if _matches_glob(pair[0], selector))
    return by_glob or _by_query(recording, selector)


def _by_query(recording: Recording, selector: str) -> tuple[KernelVariant, ...]:
    """The variants that a selector fits as a query; none where it is no query."""
    try:
        terms = parse(selector)
    except UsageError:
        if any(_COMPARISON.fullmatch(word) for word in selector.split()):
            raise
        return ()
    if not terms:
        return ()
    if needs_measures(terms):
        hint = "ptxview list --where shows the kernels that have it."
        raise UsageError("time and cost choose no KERNEL", hint)
    reader = Reader(recording, user_derived_cache())
    return tuple(matching(reader, terms, recording.variants()))


def _by_number(
    variants: Sequence[KernelVariant], name: str, number: str
) -> tuple[KernelVariant, ...]:
    """The variant of ``NAME#2``; all of ``#13``, as titles of Inductor's kernels begin."""
    if not name:
        return tuple(pair for pair in variants if str(pair[0].number) == number)
    named_variants = [pair for pair in variants if name in names(pair[0])]
    position = int(number) if len(number) < 19 else 0
    return tuple(named_variants[position - 1 : position]) if position > 0 else ()


def _matches_glob(kernel: Kernel, glob: str) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for name in names(kernel))


MAX_SPAN_LINES = 500
"""Lines of a function that a query finds it by."""
MAX_LISTED_VARIANTS = 60  # variants that are listed where one must be named


def select_launched(recording: Recording, selector: str | None) -> KernelVariant:
    """The variant that a selector means; of a kernel's several the one that was launched most, else
    the tuner's choice, which is said on standard error. Raises ``UsageError`` as ``select_one``."""
    variants = select(recording, selector)
    kernels = {kernel.id: kernel for kernel, _ in variants}
    if len(variants) < 2 or len(kernels) > 1:
        return select_one(recording, selector)
    (kernel,) = kernels.values()
    variant = representative([variant for _, variant in variants])
    if not variant.launches and not is_chosen(variant):
        return select_one(recording, selector)
    reason = plural(variant.launches, "launch") if variant.launches else "chosen by tuning"
    equal = sum(v.launches == variant.launches for _, v in variants) - 1
    if variant.launches and equal:
        reason += f", {plural(equal, 'other')} as often"
    narrate(
        f"ptxview: {shown(selector or kernel.display_name)} has {len(variants)} variants; this is"
        f" {variant.id} ({reason})"
    )
    return kernel, variant


def select_one(recording: Recording, selector: str | None) -> KernelVariant:
    """The one variant that a selector means. Raises ``UsageError`` with choices or near names."""
    variants = select(recording, selector)
    if len(variants) == 1:
        return variants[0]
    if not variants:
        raise UsageError(*_no_match(recording, selector))
    lines = "\n".join(f"  {choice(f, variants)}" for f in variants[:MAX_LISTED_VARIANTS])
    if len(variants) > MAX_LISTED_VARIANTS:
        lines += f"\n  … and {len(variants) - MAX_LISTED_VARIANTS:,} more: ptxview list shows them"
    subject = f"{selector} fits" if selector else f"{recording.path} holds"
    raise UsageError(f"{subject} {len(variants)} variants; name one of them:", lines)


def choice(pair: KernelVariant, candidates: tuple[KernelVariant, ...] = ()) -> str:
    """How to name one variant, with what tells it from the others."""
    kernel, variant = pair
    config = " ".join(
        f"{k}={v}" for k, v in variant.config.items() if k != "flags" and v is not None
    )
    same = [f for f in candidates if f[1].hash == variant.hash]
    handle = variant.id if len(same) < 2 else kernel.display_name
    arguments, failed = (
        " ".join(_distinguishing_arguments(pair, candidates)),
        "" if variant.error is None else "(failed)",
    )
    parts = (f"{handle:<12} {kernel.display_name}", variant.target or "", config)
    return shown("  ".join((*parts, *filter(None, (arguments, failed)))).rstrip())


def _distinguishing_arguments(
    pair: KernelVariant, candidates: tuple[KernelVariant, ...]
) -> Iterator[str]:
    """Types and assumptions of arguments that tell a variant from those with its settings."""
    kernel, variant = pair
    same_settings = [
        other
        for other_kernel, other in candidates
        if other_kernel.name == kernel.name
        and (other.config, other.target) == (variant.config, variant.target)
    ]
    for name, kind in variant.signature.items():
        if len({other.signature.get(name) for other in same_settings}) > 1:
            yield f"{name}: {kind}"
    for name, assumption in variant.specialization.items():
        tag = granted(assumption)
        if tag and any(granted(other.specialization.get(name)) != tag for other in same_settings):
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
    position = word.rfind("::")
    while position > 0:
        if exists(word[:position]):
            return Selection(word[:position], word[position + 2 :] or None)
        position = word.rfind("::", 0, position)
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


def _no_match(recording: Recording, selector: str | None) -> tuple[str, str]:
    if not recording.kernels:
        return f"{recording.path} holds no kernels", "Did the program compile any?"
    uncompiled = [k for k in recording.kernels if selector in names(k)]
    if uncompiled or selector is None:
        graph_ids = "; ".join(g.id for g in recording.graphs)
        hint = (
            f"Its graph's text can be shown: --stage output_code with one of {graph_ids}"
            if graph_ids
            else ""
        )
        return f"no compilation of {selector or 'any kernel'} was recorded", hint
    known_names = [n for k in recording.kernels for n in names(k)]
    path, _, kernel = selector.rpartition(":")
    # Whether it is there is not asked: who may see our files need not see all of this machine.
    if kernel and (path.endswith(SUFFIX) or path == recording.path):
        return f"no kernel or variant is called {selector}", f"Did you mean {path}::{kernel}?"
    near = difflib.get_close_matches(selector, dict.fromkeys(known_names), n=3, cutoff=0.4)
    return (
        f"no kernel or variant is called {selector}",
        f"Did you mean {' or '.join(shown(n) for n in near)}?"
        if near
        else "ptxview list shows what there is.",
    )
