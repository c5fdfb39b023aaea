"""What the compilers said of a variant, as findings at its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from inspector.analyse.hints.subject import Finding
from inspector.model import Compilation, CompilerMessage, Recording, Stage, Variant

TOOLS = ("nvcc", "ptxas", "triton")
SEVERITIES = {"error": "warn", "warning": "warn", "note": "info"}


class CompiledVariants:
    """The compilations that ``ptxview compile`` made each variant of."""

    def __init__(self, recording: Recording) -> None:
        self._of: dict[tuple[str, str], list[Compilation]] = {}
        for one in recording.compilations or ():
            names = one.symbols or ((one.kernel,) if one.kernel else ())
            for name in names if one.hash else ():
                self._of.setdefault((one.hash or "", name), []).append(one)
            if one.hash and not names:  # a file of which nothing was compiled
                self._of.setdefault((one.hash, ""), []).append(one)
        self._spans: dict[tuple[str, str], list[tuple[str, tuple[int, int]]]] = {}
        if self._of:
            for _, variant in recording.variants():
                if variant.span is not None:
                    key = (variant.hash, _source(variant))
                    self._spans.setdefault(key, []).append((variant.symbol, variant.span))

    def of(self, variant: Variant) -> list[Compilation]:
        """The compilations of a variant, in order."""
        return self._of.get((variant.hash, variant.symbol)) or self._of.get((variant.hash, ""), [])

    def said(self, variant: Variant, lines_of: Callable[[Stage], int]) -> tuple[Finding, ...]:
        """Each message once: of a file's, those that no other kernel's lines are meant by.

        ``lines_of`` says how many lines a stage has: a recording may name others.
        """
        return tuple(self._said(variant, lines_of))

    def _said(self, variant: Variant, lines_of: Callable[[Stage], int]) -> Iterator[Finding]:
        seen: set[CompilerMessage] = set()
        for one in self.of(variant):
            for message in one.messages:
                stage = _stage(message, one, variant)
                if message in seen or self._is_of_another(message, stage, variant):
                    continue
                seen.add(message)
                n, lines = message.line, {}
                if stage is not None and n is not None and 0 < n <= lines_of(stage):
                    lines = {stage: (n,)}
                yield Finding(
                    _rule(message),
                    SEVERITIES.get(message.severity, "info"), _sentence(message, stage), lines,
                )  # fmt: skip

    def _is_of_another(
        self, message: CompilerMessage, stage: Stage | None, variant: Variant
    ) -> bool:
        if stage is not Stage.SOURCE or message.line is None:
            return False
        names = [
            name
            for name, (first, last) in self._spans.get((variant.hash, _source(variant)), [])
            if first <= message.line <= last
        ]
        return bool(names) and variant.symbol not in names


def _rule(message: CompilerMessage) -> str:
    """``ptxas-warning``; what a recording calls neither so nor otherwise is a compiler's note."""
    tool = message.tool if message.tool in TOOLS else "compiler"
    return f"{tool}-{message.severity if message.severity in SEVERITIES else 'note'}"


def _source(variant: Variant) -> str:
    file = variant.stages.get(Stage.SOURCE)
    return "" if file is None or file.origin_path is None else file.origin_path


def _stage(message: CompilerMessage, one: Compilation, variant: Variant) -> Stage | None:
    """The stage whose line a message names; None where it is a file of another kind."""
    if message.file is None:
        return None
    if message.file == "ptx":
        return Stage.PTX
    if message.file == one.file and one.language in ("ptx", "ttir", "ttgir", "llir"):
        return Stage(one.language)
    own = _source(variant)
    same = own and PurePath(own).name == PurePath(message.file).name
    return Stage.SOURCE if same else None


def _sentence(message: CompilerMessage, stage: Stage | None) -> str:
    """What is told: with its place where that is not at hand."""
    if stage is not None or message.file is None or message.line is None:
        return message.message
    return f"{message.file}:{message.line}: {message.message}"
