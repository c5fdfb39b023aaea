"""Write a recorded call as one script that stands alone, for an issue, a bisection or a tuning.

The script holds the kernel's source with all that it needs, makes inputs of the recorded kind,
launches the kernel, checks what it wrote and takes the time. It imports torch and triton and
nothing of ptxview; it runs on a GPU, and under ptxview run --target on the emulated device.
"""

from __future__ import annotations

import argparse
import base64
import functools
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePath

import numpy as np

from inspector.base.errors import Exit, UsageError
from inspector.base.model import Argument, Call, Kernel, Origin, Stage, Variant
from inspector.base.text import shown
from inspector.commands.common import flag, open_reader, option, print_json, split_path, takes
from inspector.commands.trace import read_arrays, triple
from inspector.execute.calls.inputs import Array
from inspector.export.repro.python_source import CutSource, cut_function
from inspector.export.repro.script import (
    CHECKS,
    TORCH_TYPES,
    ExtensionCall,
    TritonLaunch,
    extension_script,
    is_function,
    own_flags,
    triton_script,
)
from inspector.measure.recorded_launch import chosen_call
from inspector.measure.time.planning import again
from inspector.reader.reader import Reader
from inspector.reader.selecting import select, select_calls, select_one
from inspector.recording.facts import as_map, as_text, text_of
from inspector.recording.layout import Events, is_recording, read_events
from inspector.report.tables import need_compiled
from inspector.system import files, printing
from inspector.system.printing import narrate

MAX_ARRAY_BYTES = 4 << 20
"""Bytes of arrays, compressed, that a script may hold."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``repro``."""
    takes(
        parser,
        {
            "words": option(
                "[PATH] KERNEL",
                "what to open, and which kernel of it: a name, a glob, a variant's id, NAME#2",
                nargs="*",
            ),
            "-o --output": option("FILE", "where to write it (standard output)", type=Path),
            "--call": option(
                "N",
                "which recorded call, from 0 (the most frequent; ptxview list --calls tells them)",
                type=int,
            ),
            "--variant": option("ID", "which of the kernel's variants, by the beginning of its id"),
            "--check-with": option(
                "interpreter|FILE.py:FUNCTION|none",
                "what the script compares with: Triton's own interpreter (the default), or a "
                "function that takes the kernel's arguments by name and is copied into the script",
                default="interpreter",
            ),
            "--inputs": option(
                "FILE.npz",
                "arrays by the names of arguments, of no dimensions for numbers, kept in the "
                "script",
                type=Path,
            ),
            "--json": flag("print JSON, the script within it"),
            "--grid": option("X[,Y,Z]", "blocks, instead of the call's", type=triple),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Write the script."""
    args = parser.parse_args(argv)
    if len(args.words) > 2:
        parser.error("give at most a PATH and a KERNEL")
    path, selector = split_path(args.words)
    reader = open_reader(path)
    written = _script(reader, args.variant or selector, args)
    if args.output is not None:
        try:
            args.output.write_text(written.text, "utf-8", "surrogateescape")
        except OSError as error:
            raise UsageError(
                f"{args.output} cannot be written: {error.strerror or error}"
            ) from None
        narrate(f"ptxview: wrote {args.output}; python {args.output} runs it")
    if args.json:
        print_json({"schema": 1, **asdict(written)})
    elif args.output is None:
        printing.verbatim(written.text)
    return Exit.OK


@dataclass(frozen=True, slots=True)
class WrittenScript:
    """A script, and what it is of; ``variant`` is None of an extension's function."""

    kernel: str
    variant: str | None
    call: int | None
    calls: int
    check: str
    outside: tuple[str, ...]
    unknown: tuple[str, ...]
    text: str


def _script(reader: Reader, selector: str | None, args: argparse.Namespace) -> WrittenScript:
    recording = reader.recording
    if selector is not None and not select(recording, selector):
        functions = [c for c in select_calls(recording, selector) if c.kind == "extension"]
        if functions:
            return _extension(reader, functions, functions[0].name, args)
    kernel, variant = _chosen(reader, selector)
    need_compiled(kernel, variant)
    if kernel.origin in (Origin.NVCC, Origin.FILE, Origin.CPP):
        found = again(recording, _events_of(reader), [(kernel, variant)], ())
        functions = [a.call for a in found if a.call.kind == "extension"]
        if not functions:
            raise UsageError(
                f"no call of a function was recorded that launches {kernel.demangled}",
                "A kernel of CUDA C++ is called through its extension: ptxview run a program that "
                "builds it by load_inline or load, and calls it.",
            )
        return _extension(reader, functions, kernel.demangled, args)
    return _triton(reader, kernel, variant, args)


# -- a function of an extension -------------------------------------------------------------------


def _extension(
    reader: Reader, calls: list[Call], kernel: str, args: argparse.Namespace
) -> WrittenScript:
    for name in ("grid", "inputs"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is of a Triton kernel's launch, and this is a function's")
    number, call = chosen_call(kernel, calls, args.call)
    assert call is not None
    module, _, function = call.name.rpartition(".")
    events = _events(reader)
    builds = [e for e in _events_of(reader) if e.get("event") == "extension"]
    named = [e for e in builds if e.get("name") == module]
    plain = function.isidentifier() and module.isidentifier()
    if not plain or not named or not as_map(named[-1].get("files")):
        raise UsageError(
            f"the sources of {module} were not recorded",
            "They are of what load_inline and load of torch.utils.cpp_extension build.",
        )
    files_of = as_map(named[-1].get("files"))
    digests = {
        PurePath(name).name: digest
        for name, digest in files_of.items()
        if not name.startswith(".") and name != "build.ninja"
    }
    digests |= {PurePath(p).name: d for p, d in as_map(named[-1].get("sources")).items()}
    texts = {name: _blob(events, digest) for name, digest in digests.items()}
    flags = own_flags(_blob(events, files_of.get("build.ninja")))
    for word in (w for words in flags.values() for w in words if "/" in w):
        narrate(f"ptxview: the build had {shown(word)}, which is of the machine it was recorded on")
    check, reference = _check(args.check_with)
    if check == "interpreter":
        narrate(
            "ptxview: CUDA C++ has no interpreter, so the script compares with nothing; "
            "--check-with FILE.py:FUNCTION gives it a reference"
        )
    device = reader.recording.device or {}
    text = extension_script(
        ExtensionCall(
            kernel=kernel,
            module=module,
            function=function,
            sources=texts,
            flags=flags,
            arguments=call.arguments,
            call=number,
            calls=len(calls),
            count=call.count,
            recorded_on=str(device.get("name") or ""),
            reference=reference,
        )
    )
    outside = () if reference is None else reference.outside
    compared = "none" if reference is None else "reference"
    return WrittenScript(kernel, None, number, len(calls), compared, outside, (), text)


def _events_of(reader: Reader) -> tuple[dict[str, object], ...]:
    events = _events(reader)
    return () if events is None else events.events


# -- a Triton kernel ------------------------------------------------------------------------------


def _triton(
    reader: Reader, kernel: Kernel, variant: Variant, args: argparse.Namespace
) -> WrittenScript:
    events = _events(reader)
    compiled = _compiled(events, variant)
    number, call = chosen_call(kernel.demangled, variant.calls, args.call)
    grid = args.grid or (None if call is None else call.grid)
    given = {} if args.inputs is None else read_arrays(args.inputs)
    passed = _given(variant, given) if call is None else _with(call.arguments, given)
    if grid is None or passed is None:
        emulated = kernel.origin is Origin.INDUCTOR and reader.recording.mode == "target"
        raise UsageError(
            f"no launch of {kernel.demangled} was recorded, which would tell its arguments",
            "The emulated device launches kernels of compiled graphs with ptxview run --values ptx."
            if emulated
            else "Say with what to launch it: --grid X,Y,Z and --inputs FILE.npz with an array for "
            "each argument, of no dimensions for a number; or record it: ptxview run SCRIPT.",
        )
    if reader.recording.mode == "target":  # the largest alignment there is on the emulated device
        passed = tuple(replace(a, alignment=512) if a.alignment == 64 else a for a in passed)
    source, where = _source(events, compiled, kernel, variant, passed)
    check, reference = _check(args.check_with)
    if source.unknown:
        narrate(
            f"ptxview: {', '.join(source.unknown)}: used by the kernel, and neither in {where} nor "
            "recorded; the script will miss it"
        )
    device = reader.recording.device or {}
    launch = TritonLaunch(
        kernel=kernel.demangled,
        variant=variant.id,
        source=source,
        where=where,
        grid=grid,
        arguments=passed,
        config=variant.config,
        call=number,
        calls=len(variant.calls),
        count=None if call is None else call.count,
        recorded_on=str(device.get("name") or ""),
        check=check,
        reference=reference,
        inputs=_kept(given) or None,
    )
    outside = (*source.outside, *(() if reference is None else reference.outside))
    return WrittenScript(
        kernel.demangled,
        variant.id,
        number,
        len(variant.calls),
        check,
        outside,
        source.unknown,
        triton_script(launch),
    )


def _chosen(reader: Reader, selector: str | None) -> tuple[Kernel, Variant]:
    """The variant that is meant: of several of one kernel the one that the program launched most,
    which of a tuned kernel is the winner."""
    variants = select(reader.recording, selector)
    launched = [v for v in variants if v[1].calls]
    if selector is None or len(launched) < 1 or len({k.id for k, _ in variants}) != 1:
        return select_one(reader.recording, selector)
    most = max(launched, key=lambda v: sum(c.count for c in v[1].calls))
    if len(variants) > 1:
        narrate(
            f"ptxview: {most[1].id}, which was launched most of {len(variants)} variants of "
            f"{shown(most[0].demangled)}; --variant ID takes another"
        )
    return most


@functools.cache
def _events(reader: Reader) -> Events | None:
    path = Path(reader.recording.real or reader.recording.path)
    return read_events(path) if is_recording(path) else None


def _compiled(events: Events | None, variant: Variant) -> list[Mapping[str, object]]:
    """The events of a variant's compiles, those that hold its source first."""
    if events is None:
        return []
    same = [
        e for e in events.events if e.get("event") == "triton" and e.get("hash") == variant.hash
    ]
    return sorted(same, key=lambda e: as_map(e.get("source")).get("blob") is None)


# -- what it is given -----------------------------------------------------------------------------


def _with(passed: tuple[Argument, ...], given: Mapping[str, Array]) -> tuple[Argument, ...]:
    """Recorded arguments, with the shapes of those that are given."""
    names = [a.name for a in passed]
    for name in given:
        if name not in names:
            raise UsageError(
                f"there is no argument {name} to give a value to",
                f"The arguments: {', '.join(names) or 'none'}",
            )
    return tuple(
        replace(a, value=given[a.name].item())
        if a.name in given and a.shape is None and given[a.name].size == 1
        else a
        for a in passed
    )


def _given(variant: Variant, given: Mapping[str, Array]) -> tuple[Argument, ...] | None:
    """Arguments of a launch of which nothing was recorded; None if one of them is not given."""
    out = []
    for name, kind in variant.signature.items():
        if kind == "constexpr":
            out.append(Argument(name, kind))
            continue
        array = given.get(name)
        if array is None:
            return None
        if kind.startswith("*"):
            strides = tuple(n // array.itemsize for n in np.empty(array.shape, array.dtype).strides)
            dtype = TORCH_TYPES.get(kind[1:], str(array.dtype))
            out.append(Argument(name, kind, dtype=dtype, shape=array.shape, strides=strides))
        else:
            out.append(Argument(name, kind, value=array.item()))
    return tuple(out) if out else None


def _kept(given: Mapping[str, Array]) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Given arrays, encoded for the script."""
    out, size = {}, 0
    for name, array in given.items():
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        size += len(data)
        if size > MAX_ARRAY_BYTES:
            raise UsageError(
                f"the arrays take more than {MAX_ARRAY_BYTES:,} bytes in the script with {name}",
                "Write it without them, and give them to it: python SCRIPT --inputs FILE.npz",
            )
        out[name] = (str(array.dtype), array.shape, data)
    return out


# -- its source and its reference -----------------------------------------------------------------


def _source(
    events: Events | None,
    compiled: list[Mapping[str, object]],
    kernel: Kernel,
    variant: Variant,
    passed: tuple[Argument, ...],
) -> tuple[CutSource, str]:
    """The kernel's text with all that it needs, and a word on whose text that is."""
    name = variant.symbol
    for event in compiled:
        source = as_map(event.get("source"))
        path = as_text(source.get("file")) or ""
        text = _blob(events, source.get("blob")) or _blob(events, source.get("cut"))
        if not text:
            continue
        first = source.get("first") if source.get("blob") else 1
        cut = cut_function(
            text,
            path,
            as_text(source.get("name")) or name,
            first if isinstance(first, int) else None,
            recorded=_recorded(source),
            others=_others(events, path),
            also=[str(a.value) for a in passed if is_function(a, text)],
        )
        generated = kernel.origin is Origin.INDUCTOR
        return cut, "what torch.compile generated" if generated else PurePath(path).name
    if (held := variant.stages.get(Stage.SOURCE)) is not None and variant.fusion is None:
        span = variant.lines_in(Stage.SOURCE)
        path = held.origin_path or ""
        cut = cut_function(text_of(held.content), path, name, None if span is None else span[0])
        return cut, PurePath(path).name
    code = variant.stages.get(Stage.OUTPUT_CODE)
    if code is not None and variant.span is not None:
        lines = text_of(code.content).splitlines()
        text = "\n".join(lines[variant.span[0] - 1 : variant.span[1]])
        return cut_function(text, code.origin_path or "", name), "what torch.compile generated"
    why = variant.missing.get(Stage.SOURCE) or "its source was not recorded"
    raise UsageError(
        f"there is no source of {kernel.demangled} to write: {why}",
        "ptxview run SCRIPT records it with its source.",
    )


def _recorded(source: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Globals of a kernel and of what it calls as its compile saw them, by file and name."""
    return {
        path: {
            name: value
            for name, value in as_map(rows).items()
            if name.isidentifier()
            and (value is None or isinstance(value, bool | int | float | str))
        }
        for path, rows in as_map(source.get("globals")).items()
    }


def _others(events: Events | None, path: str) -> dict[str, str]:
    """All other files of Python that were recorded, by path."""
    digests: dict[str, object] = {}
    for event in events.events if events is not None else ():
        source = as_map(event.get("source")) if event.get("event") == "triton" else {}
        digests |= {str(p): digest for p, digest in as_map(source.get("files")).items()}
        if event.get("event") == "user_file":
            digests[str(event.get("path"))] = event.get("blob")
        if source.get("file"):
            digests[str(source["file"])] = source.get("blob")
    digests.pop(path, None)
    texts = {p: _blob(events, digest) for p, digest in digests.items() if p.endswith(".py")}
    return {p: text for p, text in texts.items() if text}


def _blob(events: Events | None, digest: object) -> str:
    return "" if events is None else text_of(events.blob(digest))


def _check(wish: str) -> tuple[str, CutSource | None]:
    """What to compare with, and the reference if it is the user's."""
    if wish in CHECKS and wish != "reference":
        return wish, None
    file, colon, function = wish.rpartition(":")
    if not colon or not function.isidentifier():
        raise UsageError(
            f"--check-with {wish} is nothing to compare with",
            "It is interpreter, none, or FILE.py:FUNCTION.",
        )
    text = files.text(Path(file))
    return "reference", cut_function(text, file, function, jitted=False)
