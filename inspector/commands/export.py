"""A recording for somebody else: an HTML page, Markdown for an issue, one file.

The page needs neither a network nor ptxview. --without takes out what may not leave a company, and
what is written says so.
"""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.escapes import shown
from inspector.commands import common
from inspector.commands.common import DEVICE, flag, open_reader, option, say, select_all, takes
from inspector.estimate.launches import ESTIMATE_SECONDS, LaunchEstimates, launch_evidence
from inspector.export import collected
from inspector.export.collected import REMOVABLE, REMOVABLE_TEXTS, Remover
from inspector.export.comparisons import KernelVariant
from inspector.export.markdown import markdown
from inspector.export.page import counts_text as said_of
from inspector.export.page import page
from inspector.measure.evidence import Evidence
from inspector.measure.time.results import times
from inspector.reader.reader import Reader
from inspector.render import jsons
from inspector.sources.opening import is_there, newest, path_or_unfinished
from inspector.system import printing

FORMATS = ("html", "markdown", "ptxview")
SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".ptxview": "ptxview",
}
ENDINGS = {"html": ".html", "markdown": ".md", "ptxview": ".ptxview"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``export``."""
    out = ".html, .md or .ptxview; - is standard output (default: NAME.html, here)"
    without = "source (Python, CUDA C++, output_code), paths (files, users, the command line), "
    without += "args (the command line and environment alone), or several: source,paths"
    takes(
        parser,
        {
            "words": option(
                "[PATH] [KERNEL…]", "PATH, and kernels of it (default: all)", nargs="*"
            ),
            "-o --output": option("FILE", out),
            "--format": option(
                None, "default: by the name of the output, else html", choices=FORMATS
            ),
            "--with-inputs": flag("in a recording: what tensors held (run --inputs, verify)"),
            "--without": option("WHAT", f"what is taken out: {without}", default=""),
            "--device": DEVICE,
            "--json": flag("print JSON of what was written"),
        },
    )


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Write it, and say what was written."""
    args = parser.parse_args(argv)
    words: list[str] = args.words
    named = _names_path(words)
    path = path_or_unfinished(Path(words[0])) if named else newest()
    selectors = words[1:] if named else words
    form = _form(args.format, args.output)
    target = _target(path, form, args.output)
    without = _without(args.without)
    left_out: list[str] = []
    try:
        if form == "ptxview":
            assert target is not None
            selected, size = _write_recording(path, selectors, without, target, args.with_inputs)
        else:
            reader, selected = _exported(path, selectors, without, args.device)
            evidence = _evidence(reader, path, selected)
            content = (evidence, [REMOVABLE_TEXTS[kind] for kind in without], bool(selectors))
            size = _written(reader, selected, form, target, content, left_out)
    except BrokenPipeError:
        raise
    except OSError as error:
        location = target or error.filename or "standard output"
        raise PtxviewError(
            f"{location} could not be written: {error.strerror or error}",
            "Nothing of it was left. Write it somewhere else with -o.",
        ) from None
    for text in left_out:
        say(f"left out: {text}")
    if args.json and target is not None:
        return common.print_json(
            {
                "schema": jsons.SCHEMA,
                "path": str(target),
                "format": form,
                "bytes": size,
                "kernels": len({id(k) for k, _ in selected}),
                "variants": len(selected),
                "removed": list(without),
                "left_out": left_out,
            }
        )
    if target is not None:
        lacking = f", without {', '.join(without)}" if without else ""
        printing.lines([f"{shown(str(target))}  {said_of(selected)}, {size / 1e6:.1f} MB{lacking}"])
    return Exit.OK


def _names_path(words: Sequence[str]) -> bool:
    """Whether the first word is a PATH: one that is there, or that can only be meant as one."""
    if not words:
        return False
    if is_there(Path(words[0])):
        return True
    looks_like_path = os.sep in words[0] or Path(words[0]).suffix in SUFFIXES
    return len(words) > 1 and looks_like_path


def _write_recording(
    path: Path,
    selectors: Sequence[str],
    without: tuple[str, ...],
    target: Path,
    with_inputs: bool,
) -> tuple[list[KernelVariant], int]:
    """Write a recording; return its variants and its size in bytes."""
    collection = _collected(path, selectors, without, with_inputs)
    selected = list(collection.recording(path.name).variants())
    if not selected:
        raise PtxviewError(f"{path} holds no kernels", "Did the program compile any?")
    collection.write(target)
    return selected, target.stat().st_size


def _exported(
    path: Path, selectors: Sequence[str], without: tuple[str, ...], device: str | None
) -> tuple[Reader, list[KernelVariant]]:
    """A reader on what is exported, and its selected variants."""
    reader = open_reader(str(path), device)
    if without:
        # A recording without its sources has kernels of other hashes: names find them.
        name = "recording" if "paths" in without else path.name
        collection = _collected(path, selectors, without)
        reader = common.reader_of(collection.recording(name), device)
        selectors = ()
    return reader, select_all(reader.recording, selectors)


def _collected(
    path: Path, selectors: Sequence[str], without: tuple[str, ...], with_inputs: bool = False
) -> collected.Collected:
    """The recording as events, its selected kernels, without what is taken out."""
    collection = collected.collect(path, with_inputs)
    if selectors:
        collection = collected.subset(
            collection, select_all(collection.recording(str(path)), selectors)
        )
    return Remover(without).collected(collection) if without else collection


def _form(form_option: str | None, output: str | None) -> str:
    if form_option is not None:
        return form_option
    if output == "-":
        return "markdown"
    if output is None:
        return "html"
    if output.endswith("/") or Path(output).is_dir():
        raise UsageError(
            f"{output} is a folder", f"Name a file in it: -o {Path(output, 'page.html')}"
        )
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"{output} does not say what to write",
            f"Name it .html, .md or .ptxview, or give --format {'|'.join(FORMATS)}.",
        )
    return SUFFIXES[suffix]


def _target(path: Path, form: str, output: str | None) -> Path | None:
    """Where it is written to, None for standard output. Raises ``UsageError``."""
    if output == "-":
        if form == "ptxview":
            raise UsageError(f"a {form} cannot be written to standard output", "Name it with -o.")
        return None
    if output is None:
        target = Path(f"{path.absolute().stem}{ENDINGS[form]}")
        if target.exists():
            raise UsageError(f"{target} exists", "Name what to write: -o FILE")
    else:
        target = Path(output)
    _check_target(target)
    if target.exists() and path.exists() and target.samefile(path):
        raise UsageError(f"{target} is what is to be exported", "Name another with -o.")
    if not target.parent.is_dir():
        make = "Make it first, or name another with -o."
        raise UsageError(f"{target.parent} is not a folder", make)
    return target


def _check_target(target: Path) -> None:
    """Raise ``UsageError`` for a folder, a device or a socket."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder", f"Name a file in it: -o {target / 'page.html'}")
    if target.exists() and not target.is_dir() and not target.is_file():
        raise UsageError(f"{target} is not a regular file", "Name another with -o.")


def _without(text: str) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if odd := [word for word in words if word not in REMOVABLE]:
        hint = f"--without knows: {', '.join(REMOVABLE)}, or several of them."
        raise UsageError(f"{odd[0]} cannot be taken out", hint)
    return tuple(kind for kind in REMOVABLE if kind in words)


def _evidence(reader: Reader, path: Path, selected: Sequence[KernelVariant]) -> Evidence:
    """Times of launches; those that were not measured are simulated for a while."""
    estimates = LaunchEstimates(reader)
    evidence = launch_evidence(reader, estimates, with_window=True)
    evidence = replace(evidence, times=times(path))
    with printing.progress("reading times") as progress:
        estimates.simulate_missing(evidence, selected, ESTIMATE_SECONDS, progress)
        estimates.draw_missing(selected, ESTIMATE_SECONDS, progress)
    return evidence


def _written(
    reader: Reader,
    selected: list[KernelVariant],
    form: str,
    target: Path | None,
    content: tuple[Evidence, list[str], bool],
    left_out: list[str],
) -> int:
    """Write a page or Markdown; the bytes of it, 0 on standard output.

    ``content`` are times, sentences on what was removed, and whether kernels were named, for which
    compilers may be asked.
    """
    evidence, removed, named = content
    if not selected and not reader.recording.graphs:
        raise PtxviewError(
            f"{reader.recording.path} holds no kernels", "Did the program compile any?"
        )
    if form == "markdown":
        text = "\n".join(markdown(reader, selected, evidence, removed)) + "\n"
        pieces: Iterable[str] = (text,)
    else:
        pieces = page(
            reader, selected, evidence=evidence, removed=removed, named=named, left_out=left_out
        )
    if target is None:
        for piece in pieces:
            printing.verbatim(piece)
        return 0
    with common.appearing(target) as part, part.open("wb") as out:
        return sum(out.write(piece.encode("utf-8", "replace")) for piece in pieces)
