"""Compilers of a variant: their messages as findings at its lines, and their versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

from inspector.analyse.hints.subject import Finding
from inspector.base.errors import PtxviewError
from inspector.base.model import (
    Compilation,
    CompilerMessage,
    Origin,
    Recording,
    Stage,
    Variant,
)
from inspector.listing.cubin import Cubin, read_cubin

TOOLS = ("nvcc", "ptxas", "triton")
IR = ("ptx", "ttir", "ttgir", "llir")
NOT_LOADED = "not-loaded"
"""The rule of what was compiled, and needs more of a resource than the device has."""
Place = tuple[Stage | None, int | None]
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
        if variant.error is not None and not variant.error.messages:
            message = CompilerMessage("error", variant.error.message, variant.error.tool or "")
            rule = NOT_LOADED if variant.error.at_load else _rule(message)
            yield Finding(rule, "warn", message.message)
        seen: set[CompilerMessage] = set()
        for message, own in self._messages(variant):
            stage, n = own or _stage(message, variant)
            if message in seen or self._is_of_another(message, stage, variant):
                continue
            seen.add(message)
            lines = {}
            if stage is not None and n is not None and 0 < n <= lines_of(stage):
                lines = {stage: (n,)}
            yield Finding(
                _rule(message),
                SEVERITIES.get(message.severity, "info"),
                _sentence(message, stage),
                lines,
            )

    def _messages(self, variant: Variant) -> Iterator[tuple[CompilerMessage, Place | None]]:
        """All that was said, with its place where the file was a stage's own text."""
        for one in self.of(variant):
            for message in one.messages:
                of_stage = message.file == one.file and one.language in IR
                yield message, (Stage(one.language), message.line) if of_stage else None
        for message in variant.error.messages if variant.error is not None else ():
            yield message, None

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


def _stage(message: CompilerMessage, variant: Variant) -> Place:
    """The stage and the line that a message names; no stage where it is a file of another kind."""
    n = message.line
    if message.file is None:
        return None, n
    if message.file == "ptx":
        return Stage.PTX, n
    name = PurePath(message.file).name
    copied, embedded = variant.copied, variant.embedded
    if copied is not None and n is not None and PurePath(copied.file).name == name:
        return Stage.SOURCE, n + copied.first - 1
    own = _source(variant)
    if own and PurePath(own).name == name:
        return Stage.SOURCE, n
    if embedded is not None and n is not None and PurePath(embedded[0]).name == name:
        return Stage.OUTPUT_CODE, n + embedded[1] - 1
    return None, n


def _sentence(message: CompilerMessage, stage: Stage | None) -> str:
    """The message, with its place if that text is missing."""
    if stage is not None or message.file is None or message.line is None:
        return message.message
    return f"{message.file}:{message.line}: {message.message}"


# -- versions -------------------------------------------------------------------------------------

TRITON = (Origin.TRITON, Origin.INDUCTOR)
HEAD = 4096
"""Bytes of PTX in which its compiler names itself; what declares its version is there, too."""
_ISA = re.compile(rb"^[^\S\n]*+\.version\s++(\d++\.\d++)", re.MULTILINE)
_NVCC = re.compile(rb"^// Cuda compilation tools, release [\d.]++, V([\d.]++)", re.MULTILINE)


def made_by(tools: Mapping[str, str], origin: Origin, variant: Variant) -> dict[str, str]:
    """The programs that made a variant, with their versions if known.

    Those of Triton and torch are recorded with it, in a recording made before that with all of it;
    nvcc's, or of NVIDIA's compiler where another calls it, is its own line at the head of its PTX.
    Of ptxas it is the cubin's own note, which CUDA 13's writes, else the recording's where Triton
    has one assembler for all. The ISA is PTX's.
    """
    own = {**variant.made_by}
    if (version := variant.options.get("triton_version")) is not None:
        own["triton"] = str(version)
    out: dict[str, str] = {}
    for name, of in (("torch", (Origin.INDUCTOR,)), ("triton", TRITON)):
        if origin in of and (version := own.get(name) or tools.get(name)):
            out[name] = version
    sass, ptx = variant.stages.get(Stage.SASS), variant.stages.get(Stage.PTX)
    try:
        cubin = None if sass is None else read_cubin(sass.content.read())
        text = b"" if ptx is None or ptx.costly else ptx.content.read()[:HEAD]
    except (PtxviewError, OSError):
        return out
    if (nvcc := _NVCC.search(text)) is not None:
        # libNVVM and NVRTC write the same line for others.
        out["nvcc" if origin is Origin.NVCC else "CUDA compiler"] = nvcc[1].decode()
    if (isa := _ISA.search(text)) is not None:
        out["PTX ISA"] = isa[1].decode()
    if cubin is not None:
        assembler = cubin.ptxas or assembler_of(tools, origin, cubin)
        out |= {"ptxas": assembler} if assembler else {}
    return out


def assembler_of(tools: Mapping[str, str], origin: Origin, cubin: Cubin) -> str | None:
    """The version of Triton's ptxas that assembled a cubin without a note; None if it is not known.

    ABI 7 is CUDA 12's. Where Triton brings two assemblers that both may have written the file,
    nothing says which.
    """
    able = {
        version
        for name in ("ptxas", "ptxas-blackwell")
        if (version := tools.get(name))
        and bool(re.match(r"(?:1[3-9]|[2-9]\d|\d{3})(?!\d)", version)) == (cubin.abi >= 8)
    }
    return able.pop() if len(able) == 1 and origin in TRITON else None
