"""What ``show`` opens: a path, standard input, or PTX with the machine code that ptxas makes."""

import argparse
from pathlib import Path

from inspector.base.errors import Unreadable, UsageError
from inspector.base.model import Recording, Stage
from inspector.base.units import plural
from inspector.commands import common
from inspector.commands.common import say
from inspector.measure.ncu.attach import ProfiledRecording
from inspector.parsers.language import language_of
from inspector.reader.stages import decode
from inspector.recording.layout import user_derived_cache
from inspector.sources.opening import open_path, open_text

LANGUAGES = tuple(s.value for s in (Stage.PTX, Stage.SASS, Stage.TTIR, Stage.TTGIR, Stage.LLIR))

MAX_ASSEMBLED_BYTES = 1 << 20
"""Bytes of a .ptx that is assembled unasked: ptxas takes minutes for many more."""


def open_input(path: str | None, args: argparse.Namespace) -> ProfiledRecording:
    """Open what is to be shown; PTX that stands alone is assembled."""
    if path == "-":
        return _assembled(_standard_input(args.language), args)
    if args.language is not None:
        raise UsageError("--language is of standard input", "Files are known by their endings.")
    if path is None or Path(path).suffix.lower() != ".ptx" or not Path(path).is_file():
        return common.open_profiled(path, args.device, args.ncu)
    if args.device is not None or Path(path).stat().st_size <= MAX_ASSEMBLED_BYTES:
        return _assembled(open_path(Path(path)), args)
    profiled = common.open_profiled(path, None, args.ncu)
    if not args.json:
        variants = profiled.reader.recording.variants()
        target = next((v.target for _, v in variants if v.target), "ARCH")
        say(
            f"not assembled, for it is larger than {MAX_ASSEMBLED_BYTES >> 20} MiB: "
            f"--device {target} does, and takes ptxas' time"
        )
    return profiled


def _assembled(recording: Recording, args: argparse.Namespace) -> ProfiledRecording:
    """PTX with the machine code that ptxas makes of it, or with the reason why it is missing."""
    from inspector.measure.ncu import report as reports
    from inspector.sources.compilers import assembled

    recording = assembled(recording, user_derived_cache(), args.device)
    if not args.annotate and not args.json:
        for compilation in recording.compilations:
            if compilation.failed is not None:
                say(f"no machine code: {compilation.failed}")
            elif compilation.tool is not None or compilation.symbols:
                names = plural(len(compilation.symbols), "kernel")
                say(
                    f"{names} assembled for {compilation.target}: -a tells registers and spills, "
                    "--stage sass shows the machine code"
                )
    report = reports.load([Path(r) for r in args.ncu]) if args.ncu else None
    return common.profiled(recording, args.device, report)


def _standard_input(language: str | None) -> Recording:
    data = common.standard_input("Show it from a file.")
    if not data.strip():
        raise Unreadable("standard input is empty")
    if b"\0" in data[:65536]:
        raise Unreadable(
            "standard input is binary", "Give cubins and objects as files: ptxview show x.cubin"
        )
    stage = Stage(language) if language else language_of(decode(data))
    if stage is None:
        raise UsageError(
            "it is not clear what standard input holds",
            f"Say it: --language {', '.join(LANGUAGES)}",
        )
    return open_text(data, "<stdin>", stage)
