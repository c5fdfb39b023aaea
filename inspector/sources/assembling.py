"""PTX that stands alone, with the machine code that ptxas makes of it here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from inspector.base.errors import PtxviewError
from inspector.base.model import (
    Compilation,
    Kernel,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.recording.facts import from_ptxas
from inspector.recording.layout import BytesContent, DerivedCache
from inspector.sources.compilers import Compiled, CompilerInput, assemblers, compile_ptx, own_target

_VERSION = re.compile(r"^[^\S\n]*\.version\s", re.MULTILINE)
SECONDS, UNASKED_SECONDS = 120.0, 6.0
"""Time limits of ptxas for a device that was named, and where nobody asked for machine code."""


def assembled(recording: Recording, cache: DerivedCache, device: str | None = None) -> Recording:
    """A recording of one file of PTX, with machine code for ``device``, else for its own target.

    Where it cannot be assembled, its variants say why they have no SASS; a ``Compilation`` of the
    recording has what ptxas said. One that holds anything else is given back as it is.
    """
    contents = {v.hash: v.stages.get(Stage.PTX) for _, v in recording.variants()}
    file = next(iter(contents.values()), None)
    if (
        len(contents) != 1
        or file is None
        or any(len(v.stages) > 1 for _, v in recording.variants())
    ):
        return recording
    data = file.content.read()
    source = CompilerInput(Path(recording.path), recording.path, "ptx", data)
    if not _VERSION.search(source.text):
        return _without(recording, "it is a part of a module: it has no .version")
    own = own_target(source.text)
    if own is None:
        return _without(recording, "it has no .target")
    for target in dict.fromkeys(filter(None, (device, own))):
        try:
            made = _made(source, target, cache, UNASKED_SECONDS if device is None else SECONDS)
        except PtxviewError as error:
            return _without(recording, f"{error.message}. {error.hint}".rstrip(". "))
        if device is None and made.cubin is None and (made.seconds or 0) >= UNASKED_SECONDS:
            longer = f"{made.failed}: --device {own} gives it {SECONDS:.0f} s"
            made = replace(made, failed=longer)
        if made.failed is None or target == own:
            return _with(recording, source, target, made)
    return recording


def _made(source: CompilerInput, target: str, cache: DerivedCache, seconds: float) -> Compiled:
    """What ptxas makes of it, from the cache where it has been made before."""
    version = next((f"{t.path} {t.version}" for t in assemblers()), "")
    key = cache.key("assembled", version, target, source.data)
    cubin, printed = cache.get(cache.key(key, "cubin")), cache.get(cache.key(key, "printed"))
    if cubin is not None and printed is not None and version:
        return Compiled(source.data, cubin, printed=printed.decode("utf-8", "replace"))
    made = compile_ptx(source, target, (), seconds=seconds)
    # What has something to say says it again.
    if made.cubin is not None and not made.messages:
        cache.put(cache.key(key, "cubin"), made.cubin)
        cache.put(cache.key(key, "printed"), made.printed.encode())
    return made


def _with(recording: Recording, source: CompilerInput, target: str, made: Compiled) -> Recording:
    figures = from_ptxas(made.printed) if made.cubin is not None else {}
    tried = Compilation(
        source.name,
        "ptx",
        target,
        hash=next(v.hash for _, v in recording.variants()),
        symbols=made.symbols,
        seconds=made.seconds,
        tool=made.tool,
        failed=made.failed,
        messages=made.messages,
    )

    def variant(one: Variant) -> Variant:
        if made.cubin is None:
            return replace(one, missing={**one.missing, Stage.SASS: f"ptxas: {made.failed}"})
        file = StageFile(BytesContent(made.cubin), None, "nvdisasm -c")
        return replace(
            one,
            target=target,
            stages={**one.stages, Stage.SASS: file},
            missing={s: why for s, why in one.missing.items() if s is not Stage.SASS},
            known=figures.get(one.symbol, Resources()),
        )

    return replace(_changed(recording, variant), compilations=(tried,))


def _without(recording: Recording, why: str) -> Recording:
    return _changed(recording, lambda one: replace(one, missing={**one.missing, Stage.SASS: why}))


def _changed(recording: Recording, change: Callable[[Variant], Variant]) -> Recording:
    def kernel(one: Kernel) -> Kernel:
        return replace(one, variants=tuple(change(v) for v in one.variants))

    return replace(recording, kernels=tuple(kernel(k) for k in recording.kernels))
