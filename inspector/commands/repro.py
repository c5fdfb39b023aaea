"""Write a recorded call as one script that stands alone, for an issue, a bisection or a tuning.

The script holds the kernel's source with all that it needs and the values that the recording kept.
It makes other inputs of the recorded kind, launches the kernel, checks what it wrote and takes the
time. It imports torch and triton and nothing of ptxview; it runs on a GPU, and under ptxview run
--target on the emulated device.
"""

import argparse
import base64
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from msgspec.structs import replace

from inspector.analysis.python_source import CutSource, cut_function
from inspector.base.errors import Exit, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Argument, Call, Kernel, Origin, Stage, Variant
from inspector.commands import common
from inspector.commands.common import KERNEL, flag, open_reader, option, print_json, say, takes
from inspector.commands.trace import read_arrays, triple
from inspector.execute.calls.inputs import Array, stored_elements
from inspector.export.repro.script import (
    CHECKS,
    TORCH_TYPES,
    ExtensionCall,
    TritonLaunch,
    build_flags,
    extension_script,
    is_function,
    triton_script,
)
from inspector.measure.recorded_launch import chosen_call, default_call, kept_arrays
from inspector.measure.time.planning import replayable_calls
from inspector.reader.query import select, select_calls, select_one
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.recording.contents import text_of
from inspector.recording.decoding import as_map
from inspector.recording.layout import Events, is_recording, read_events
from inspector.render.tables import require_compiled
from inspector.sources.kernel_source import KernelSources
from inspector.system import files, printing
from inspector.verify.graph_nodes import Unverifiable
from inspector.verify.launches import kept_launches
from inspector.verify.operator_source import NAME as OPERATORS
from inspector.verify.operator_source import operator_function
from inspector.verify.tasks import tasks_of

MAX_ARRAY_BYTES = 4 << 20
"""Bytes of arrays, compressed, that a script may hold."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``repro``."""
    check = "what the script compares with: Triton's own interpreter (the default), or a function "
    check += "that takes the kernel's arguments by name and is copied into the script"
    ways = "interpreter|FILE.py:FUNCTION|none"
    takes(
        parser,
        {
            "words": KERNEL,
            "-o --output": option("FILE", "where to write it (standard output)", type=Path),
            "--call": option(
                "N",
                "recorded call, from 0 (default: a failed one, else commonest)",
                type=int,
            ),
            "--variant": option("ID", "which of the kernel's variants, by its id's beginning"),
            "--check-with": option(ways, check, default="interpreter"),
            "--inputs": option(
                "FILE.npz", "arrays by argument name, kept in the script", type=Path
            ),
            "--verify": flag("with kept values, checked by the kernel's own operators"),
            "--json": flag("print JSON, the script within it"),
            "--grid": option("X[,Y,Z]", "blocks, instead of the call's", type=triple),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Write the script."""
    args = parser.parse_args(argv)
    path, selector = common.split_path(args.words)
    written = _script(open_reader(path), args.variant or selector, args)
    if args.output is not None:
        common.write(args.output, written["text"], "surrogateescape")
        say(f"wrote {args.output}; python {args.output} runs it")
    if args.json:
        print_json({"schema": 1, **written})
    elif args.output is None:
        printing.verbatim(written["text"])
    return Exit.OK


def _script(reader: Reader, selector: str | None, args: argparse.Namespace) -> dict[str, Any]:
    """The JSON of a script: its text, and what it is of; an extension's function has no variant."""
    recording = reader.recording
    place = Path(recording.resolved_path or recording.path)
    events = read_events(place) if is_recording(place) else Events(place, (), ())
    if selector is not None and not select(recording, selector):
        functions = [c for c in select_calls(recording, selector) if c.kind == "extension"]
        if functions:
            return _extension(reader, events, functions, functions[0].name, args)
    kernel, variant = _select_variant(reader, selector)
    require_compiled(kernel, variant)
    if kernel.origin in (Origin.NVCC, Origin.FILE, Origin.CPP):
        calls = replayable_calls(recording, events.events, [(kernel, variant)], ())
        functions = [a.call for a in calls if a.call.kind == "extension"]
        if not functions:
            raise UsageError(
                f"no call of a function was recorded that launches {kernel.demangled}",
                "A kernel of CUDA C++ is called through its extension: ptxview run a program that "
                "builds it by load_inline or load, and calls it.",
            )
        return _extension(reader, events, functions, kernel.demangled, args)
    return _triton(reader, events, kernel, variant, args)


def _extension(
    reader: Reader, events: Events, calls: list[Call], kernel: str, args: argparse.Namespace
) -> dict[str, Any]:
    for name in ("grid", "inputs"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is of a Triton kernel's launch, and this is a function's")
    call_number = default_call(calls) if args.call is None else args.call
    number, call = chosen_call(kernel, calls, call_number)
    assert call is not None
    module, _, function = call.name.rpartition(".")
    build = _build(events, module)
    build_files = as_map(build.get("files"))
    if not function.isidentifier() or not module.isidentifier() or not build_files:
        raise UsageError(
            f"the sources of {module} were not recorded",
            "They are of what load_inline and load of torch.utils.cpp_extension build.",
        )
    flags = build_flags(text_of(events.blob(build_files.get("build.ninja"))))
    for words in flags.values():
        for word in words:
            if "/" in word:
                say(f"the build had {shown(word)}, which is of the machine it was recorded on")
    check, reference = _check(args.check_with)
    if check == "interpreter":
        printing.narrate(
            "ptxview: CUDA C++ has no interpreter, so the script compares with nothing; "
            "--check-with FILE.py:FUNCTION gives it a reference"
        )
    text = extension_script(
        ExtensionCall(
            kernel=kernel,
            module=module,
            function=function,
            sources=_build_sources(events, build),
            flags=flags,
            arguments=call.arguments,
            shares=call.shares,
            call=number,
            calls=len(calls),
            count=call.count,
            recorded_on=_recorded_on(reader),
            reference=reference,
        ),
        table("repro_parts"),
    )
    return {
        "kernel": kernel,
        "variant": None,
        "call": number,
        "calls": len(calls),
        "check": "none" if reference is None else "reference",
        "outside": () if reference is None else reference.outside,
        "unknown": (),
        "kept_inputs": (),
        "text": text,
    }


def _build(events: Events, module: str) -> Mapping[str, object]:
    """The last recorded build of an extension, else empty."""
    build: Mapping[str, object] = {}
    for event in events.events:
        if event.get("event") == "extension" and event.get("name") == module:
            build = event
    return build


def _build_sources(events: Events, build: Mapping[str, object]) -> dict[str, str]:
    """The texts that an extension was built from, by their names."""
    digests: dict[str, object] = {}
    for name, digest in as_map(build.get("files")).items():
        if not name.startswith(".") and name != "build.ninja":
            digests[PurePath(name).name] = digest
    for path, digest in as_map(build.get("sources")).items():
        digests[PurePath(path).name] = digest
    return {name: text_of(events.blob(digest)) for name, digest in digests.items()}


def _triton(
    reader: Reader, events: Events, kernel: Kernel, variant: Variant, args: argparse.Namespace
) -> dict[str, Any]:
    call_number = default_call(variant.calls) if args.call is None else args.call
    number, call = chosen_call(kernel.demangled, variant.calls, call_number)
    arrays = {} if args.inputs is None else read_arrays(args.inputs)
    kept = {} if call is None or args.verify else kept_arrays(reader, call, arrays)
    check, reference = _check(args.check_with)
    if args.verify:
        check = "reference"
        reference, arrays = _operators(reader, events, kernel, call)
    if call is None:
        grid = args.grid
        passed = _unrecorded_arguments(variant, arrays)
    else:
        grid = args.grid or call.grid
        passed = _with(call.arguments, arrays)
    if grid is None or passed is None:
        raise _no_launch(reader, kernel)
    if reader.recording.mode == "target":  # the largest alignment there is on the emulated device
        passed = tuple(replace(a, alignment=512) if a.alignment == 64 else a for a in passed)
    source, text_owner = _source(events, kernel, variant, passed)
    if source.unknown:
        printing.narrate(
            f"ptxview: {', '.join(source.unknown)}: used by the kernel, and neither in "
            f"{text_owner} nor recorded; the script will miss it"
        )
    encoded = _encoded(arrays, kept)
    kept_names = tuple(name for name in encoded if args.verify or name in kept)
    if kept_names:
        printing.narrate(
            f"ptxview: inputs: {', '.join(kept_names)} as the program's call had them, within the "
            "script; all others are new ones"
        )
    launch = TritonLaunch(
        kernel=kernel.demangled,
        variant=variant.id,
        source=source,
        source_label=text_owner,
        grid=grid,
        arguments=passed,
        shares=() if call is None else call.shares,
        config=variant.config,
        call=number,
        calls=len(variant.calls),
        count=None if call is None else call.count,
        recorded_on=_recorded_on(reader),
        check=check,
        reference=reference,
        inputs=encoded or None,
        kept_names=kept_names,
    )
    outside = source.outside
    if reference is not None:
        outside = (*outside, *reference.outside)
    return {
        "kernel": kernel.demangled,
        "variant": variant.id,
        "call": number,
        "calls": len(variant.calls),
        "check": check,
        "outside": outside,
        "unknown": source.unknown,
        "kept_inputs": kept_names,
        "text": triton_script(launch, table("repro_parts")),
    }


def _operators(
    reader: Reader, events: Events, kernel: Kernel, call: Call | None
) -> tuple[CutSource, dict[str, Array]]:
    """The operators of a kernel as a reference, and what a launch read. Raises ``UsageError``."""
    launches = kept_launches(reader.recording, events)
    if not launches:
        raise UsageError(
            "the recording has no values of launches",
            "ptxview verify -o x.ptxview SCRIPT.py keeps them.",
        )
    tasks = [task for task in tasks_of(launches) if task.launch.kernel.name == kernel.name]
    compared = [task.comparison for task in tasks if task.comparison is not None]
    try:
        if not compared:
            why = tasks[0].why if tasks else "no launch of it was kept"
            raise Unverifiable(why)
        function = operator_function(compared[0])
    except Unverifiable as error:
        raise UsageError(f"{kernel.demangled} has no operators to compare with: {error}") from None
    arguments = {a.name: a for a in (() if call is None else call.arguments)}
    arrays = {}
    for node, parameter in compared[0].parameters.items():
        argument = arguments.get(parameter)
        tensor = compared[0].inputs.get(node)
        if argument is not None and tensor is not None:
            elements = stored_elements(argument, tensor.read())
            if elements is not None:
                arrays[parameter] = elements
    imports = ("import torch", "import torch._inductor.inductor_prims  # registers operators")
    return CutSource(OPERATORS, imports=imports, statements=(function,)), arrays


def _no_launch(reader: Reader, kernel: Kernel) -> UsageError:
    """What to do where neither a launch was recorded nor its arguments are given."""
    message = f"no launch of {kernel.demangled} was recorded, which would tell its arguments"
    if kernel.origin is Origin.INDUCTOR and reader.recording.mode == "target":
        way = "ptxview run --values ptx"
        hint = f"The emulated device launches kernels of compiled graphs with {way}."
        return UsageError(message, hint)
    return UsageError(
        message,
        "Say with what to launch it: --grid X,Y,Z and --inputs FILE.npz with an array for "
        "each argument, of no dimensions for a number; or record it: ptxview run SCRIPT.",
    )


def _select_variant(reader: Reader, selector: str | None) -> tuple[Kernel, Variant]:
    """The variant that is meant: of several of one kernel the one that the program launched most,
    which of a tuned kernel is the winner."""
    variants = select(reader.recording, selector)
    launched = [pair for pair in variants if pair[1].calls]
    several_kernels = len({kernel.id for kernel, _ in variants}) != 1
    if selector is None or not launched or several_kernels:
        return select_one(reader.recording, selector)
    failed = [pair for pair in launched if default_call(pair[1].calls) is not None]
    kernel, variant = max(failed or launched, key=lambda pair: sum(c.count for c in pair[1].calls))
    if len(variants) > 1:
        why = "which failed" if failed else "which was launched most"
        printing.narrate(
            f"ptxview: {variant.id}, {why} of {len(variants)} variants of "
            f"{shown(kernel.demangled)}; --variant ID takes another"
        )
    return kernel, variant


def _recorded_on(reader: Reader) -> str:
    return str((reader.recording.device or {}).get("name") or "")


def _with(passed: tuple[Argument, ...], arrays: Mapping[str, Array]) -> tuple[Argument, ...]:
    """Recorded arguments, with the shapes of those that are given."""
    names = [argument.name for argument in passed]
    unknown_names = [name for name in arrays if name not in names]
    if unknown_names:
        raise UsageError(
            f"there is no argument {unknown_names[0]} to give a value to",
            f"The arguments: {', '.join(names) or 'none'}",
        )
    arguments = []
    for argument in passed:
        array = arrays.get(argument.name)
        if array is not None and argument.shape is None and array.size == 1:
            argument = replace(argument, value=array.item())
        arguments.append(argument)
    return tuple(arguments)


def _unrecorded_arguments(
    variant: Variant, arrays: Mapping[str, Array]
) -> tuple[Argument, ...] | None:
    """Arguments of a launch of which nothing was recorded; None if one of them is not given."""
    out = []
    for name, kind in variant.signature.items():
        array = arrays.get(name)
        if kind == "constexpr":
            out.append(Argument(name, kind))
        elif array is None:
            return None
        elif kind.startswith("*"):
            strides = tuple(n // array.itemsize for n in np.empty(array.shape, array.dtype).strides)
            dtype = TORCH_TYPES.get(kind[1:], str(array.dtype))
            out.append(Argument(name, kind, dtype=dtype, shape=array.shape, strides=strides))
        else:
            out.append(Argument(name, kind, value=array.item()))
    return tuple(out) or None


def _encoded(
    arrays: Mapping[str, Array], kept: Mapping[str, Array]
) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Given arrays, encoded for the script; of kept ones those that it has room for."""
    encoded = {}
    size = 0
    smallest_first = sorted(kept.items(), key=lambda item: item[1].nbytes)
    for name, array in (*arrays.items(), *smallest_first):
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        if size + len(data) <= MAX_ARRAY_BYTES:
            size += len(data)
            encoded[name] = (str(array.dtype), array.shape, data)
        elif name in kept:
            printing.narrate(f"ptxview: the kept values of {name} are too many for a script")
        else:
            raise UsageError(
                f"the arrays take more than {MAX_ARRAY_BYTES:,} bytes in the script with {name}",
                "Write it without them, and give them to it: python SCRIPT --inputs FILE.npz",
            )
    return encoded


def _source(
    events: Events, kernel: Kernel, variant: Variant, passed: tuple[Argument, ...]
) -> tuple[CutSource, str]:
    """The kernel's text with all that it needs, and a word on whose text that is."""
    generated = "what torch.compile generated"
    compiled = KernelSources(events).cut(
        variant.hash,
        variant.symbol,
        lambda text: [str(a.value) for a in passed if is_function(a, text)],
    )
    if compiled is not None:
        source, path = compiled
        is_generated = kernel.origin is Origin.INDUCTOR
        return source, generated if is_generated else PurePath(path).name
    file = variant.stages.get(Stage.SOURCE)
    if file is not None and variant.fusion is None:
        span = variant.lines_in(Stage.SOURCE)
        path = file.origin_path or ""
        first = None if span is None else span[0]
        source = cut_function(text_of(file.content), path, variant.symbol, first)
        return source, PurePath(path).name
    code = variant.stages.get(Stage.OUTPUT_CODE)
    if code is not None and variant.span is not None:
        lines = text_of(code.content).splitlines()
        text = "\n".join(lines[variant.span[0] - 1 : variant.span[1]])
        return cut_function(text, code.origin_path or "", variant.symbol), generated
    why = variant.missing.get(Stage.SOURCE) or "its source was not recorded"
    raise UsageError(
        f"there is no source of {kernel.demangled} to write: {why}",
        "ptxview run SCRIPT records it with its source.",
    )


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
    return "reference", cut_function(files.text(Path(file)), file, function, jitted=False)
