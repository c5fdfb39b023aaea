"""A recording for somebody else: an HTML page, Markdown for an issue, a folder, one file.

The page needs neither a network nor ptxview. --without takes out what may not leave a company, and
what is written says so.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.text import shown
from inspector.commands.common import open_reader, print_json, reader_of, select_all
from inspector.export import collected
from inspector.export.collected import SAID, WHAT, Remover
from inspector.export.markdown import File, contents, markdown
from inspector.export.page import Found, named, page
from inspector.measure.time.results import StoredTimes, times
from inspector.reader.reader import Reader
from inspector.report import jsons
from inspector.sources.opening import is_there, newest, standing
from inspector.system import files, printing
from inspector.system.printing import narrate

FORMATS = ("html", "markdown", "folder", "ptxview")
SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".ptxview": "ptxview",
}
ENDINGS = {"html": ".html", "markdown": ".md", "ptxview": ".ptxview", "folder": ""}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``export``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[PATH] [KERNEL…]",
        help="what to open, and which kernels of it; all of the newest recording if left out",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write: .html, .md, .ptxview or a folder; - is standard output; "
        "default: the recording's name and .html, here",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: by the name of the output, else html"
    )
    parser.add_argument(
        "--without",
        metavar="WHAT",
        default="",
        help="what is taken out: source (Python, CUDA C++, output_code), paths (files, users, the "
        "command line), args (the command line and environment alone), or several: source,paths",
    )
    parser.add_argument(
        "--device",
        metavar="ARCH",
        help="architecture for occupancy and hints (sm_80); default: the variant's own",
    )
    parser.add_argument("--json", action="store_true", help="print JSON of what was written")


@dataclass
class Export:
    """One export: its source, form, removals, and omissions."""

    path: Path
    selectors: Sequence[str]
    form: str
    without: tuple[str, ...]
    device: str | None = None
    left_out: list[str] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    size: int = 0
    """Bytes of the files of a folder."""

    def reader(self) -> Reader:
        """Return a reader of the recording after removals."""
        if not self.without:
            return open_reader(str(self.path), self.device)
        rest = self.rest()
        name = "recording" if "paths" in self.without else self.path.name
        return reader_of(rest.recording(name), self.device)

    def rest(self) -> collected.Collected:
        """The recording as events, without what was taken out."""
        every = collected.collect(self.path)
        if self.selectors:
            original = every.recording(str(self.path))
            every = collected.some_of(every, select_all(original, self.selectors))
        return Remover(self.without).collected(every) if self.without else every

    @property
    def taken(self) -> StoredTimes:
        """The times that are kept with the recording; they name kernels and shapes alone."""
        return times(self.path)

    @property
    def said(self) -> list[str]:
        """What was taken out, in words."""
        return [SAID[what] for what in self.without]


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Write it, and say what was written."""
    args = parser.parse_args(argv)
    words: list[str] = args.words
    given = words[:1] if words and _is_path(words[0], len(words) > 1) else []
    path = standing(Path(given[0])) if given else newest()
    form = _form(args.format, args.output)
    target = _target(path, form, args.output)
    export = Export(path, words[len(given) :], form, _without(args.without), args.device)
    with _said_where(target):
        if form == "ptxview":
            _one_file(export, target)
        else:
            _written(export, target)
    for text in export.left_out:
        narrate(f"ptxview: left out: {text}")
    if target is None:
        return Exit.OK
    size = target.stat().st_size if export.form != "folder" else export.size
    if args.json:
        print_json(_document(export, target, size))
        return Exit.OK
    without = f", without {', '.join(export.without)}" if export.without else ""
    printing.lines([f"{shown(str(target))}  {named(export.found)}, {size / 1e6:.1f} MB{without}"])
    return Exit.OK


# -- arguments -----------------------------------------------------------------------------------


def _is_path(word: str, more: bool) -> bool:
    """Whether the first word is a PATH: one that is there, or that can only be meant as one."""
    return is_there(Path(word)) or (more and (os.sep in word or Path(word).suffix in SUFFIXES))


def _form(asked: str | None, output: str | None) -> str:
    if asked is not None:
        return asked
    if output == "-":
        return "markdown"
    if output is None:
        return "html"
    if output.endswith(("/", os.sep)) or Path(output).is_dir():
        return "folder"
    suffix = Path(output).suffix.lower()
    if suffix and suffix not in SUFFIXES:
        raise UsageError(
            f"{output} does not say what to write",
            f"Name it .html, .md or .ptxview, or give --format {'|'.join(FORMATS)}.",
        )
    return SUFFIXES.get(suffix, "folder")


def _target(path: Path, form: str, output: str | None) -> Path | None:
    """Where it is written to, None for standard output. Raises ``UsageError``."""
    if output == "-":
        if form in ("folder", "ptxview"):
            raise UsageError(f"a {form} cannot be written to standard output", "Name it with -o.")
        return None
    if output is None:
        target = Path(f"{path.absolute().stem}{ENDINGS[form]}")
        if target.exists():
            raise UsageError(f"{target} exists", "Name what to write: -o FILE")
    else:
        target = Path(output)
    if form != "folder" and target.is_dir():
        raise UsageError(f"{target} is a folder", f"Name a file in it: -o {target / 'page.html'}")
    if target.exists() and not target.is_dir() and not target.is_file():
        raise UsageError(f"{target} is not a regular file", "Name another with -o.")
    if target.exists() and path.exists() and target.samefile(path):
        raise UsageError(f"{target} is what is to be exported", "Name another with -o.")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target.parent} is not a folder", "Make it first, or name another with -o."
        )
    if form == "folder" and target.exists() and (not target.is_dir() or files.names(target)[0]):
        raise UsageError(f"{target} is not empty", "Name a new folder with -o.")
    return target


def _without(text: str) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if odd := [word for word in words if word not in WHAT]:
        raise UsageError(
            f"{odd[0]} cannot be taken out",
            f"--without knows: {', '.join(WHAT)}, or several of them.",
        )
    return tuple(what for what in WHAT if what in words)


# -- what is written ------------------------------------------------------------------------------


def _written(export: Export, target: Path | None) -> None:
    """Write a page, Markdown or a folder."""
    reader = export.reader()
    # A recording without its sources has kernels of other hashes: names find them all the same.
    selectors = () if export.without else export.selectors
    found = export.found = select_all(reader.recording, selectors)
    if not found and not reader.recording.graphs:
        raise PtxviewError(
            f"{reader.recording.path} holds no kernels", "Did the program compile any?"
        )
    taken, compilers = export.taken, bool(export.selectors)
    if export.form == "folder":
        assert target is not None
        written = contents(reader, found, taken, export.said, compilers, export.left_out.append)
        export.size = _folder(target, written)
        return
    if export.form == "markdown":
        text = "\n".join(markdown(reader, found, taken, export.said)) + "\n"
        pieces: Iterable[str] = (text,)
    else:
        pieces = page(
            reader,
            found,
            times=taken,
            removed=export.said,
            compilers=compilers,
            left_out=export.left_out,
        )
    if target is None:
        for piece in pieces:
            printing.verbatim(piece)
        return
    with _appearing(target) as part, part.open("wb") as out:
        for piece in pieces:
            out.write(piece.encode("utf-8", "replace"))


def _one_file(export: Export, target: Path | None) -> None:
    """A recording in one file, which ``ptxview open`` opens."""
    assert target is not None
    rest = export.rest()
    export.found = list(rest.recording(export.path.name).variants())
    if not export.found:
        raise PtxviewError(f"{export.path} holds no kernels", "Did the program compile any?")
    rest.write(target)


def _folder(target: Path, written: Iterator[File]) -> int:
    """Write a folder, which appears when it is complete; return the bytes of its files."""
    size = 0
    with _appearing(target, is_folder=True) as part:
        for name, data in written:
            path = part / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            size += len(data)
    return size


@contextlib.contextmanager
def _said_where(target: Path | None) -> Iterator[None]:
    """A disk that is full, or a folder that is not one's own, is named."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        where = target or error.filename or "standard output"
        raise PtxviewError(
            f"{where} could not be written: {error.strerror or error}",
            "Nothing of it was left. Write it somewhere else with -o.",
        ) from None


@contextlib.contextmanager
def _appearing(target: Path, is_folder: bool = False) -> Iterator[Path]:
    """A file or folder beside the target that takes its place when it is complete."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        part = Path(name) / target.name
        if is_folder:
            part.mkdir()
        yield part
        part.replace(target)


def _document(export: Export, target: Path, size: int) -> dict[str, object]:
    return {
        "schema": jsons.SCHEMA,
        "path": str(target),
        "format": export.form,
        "bytes": size,
        "kernels": len({id(k) for k, _ in export.found}),
        "variants": len(export.found),
        "removed": list(export.without),
        "left_out": export.left_out,
    }
