"""The one way out: all that a command writes to standard output or standard error passes here.

Anything in text of strangers that a terminal would obey (escape sequences, control characters,
marks of direction) is made visible here, at the last moment; colours of our own tables stay.
Unchanged are JSON, which is ASCII, a stage's text to a pipe or a file (``verbatim``), and what the
user's program writes (``relay``). ``guarded`` filters ``sys.stdout`` and ``sys.stderr`` for those
who write there directly: argparse, warnings, libraries.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO, cast

from inspector.base.escapes import lines_shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PAGE = 160  # columns of a table that is for no terminal
ROWS = 64  # long lines that are laid out at once


def _fit(text: str, stream: TextIO) -> str:
    """``text`` with what the stream's encoding, if any, lacks as escapes: a lone surrogate."""
    encoding = getattr(stream, "encoding", None)
    if not encoding or text.isascii():
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


class _Fitting(io.TextIOBase):
    """A stream that takes every text in the terminal's encoding."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        self.stream.write(_fit(text, self.stream))
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def fileno(self) -> int:
        return self.stream.fileno()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.stream.isatty()


class _Guard(_Fitting):
    """Standard output or error for direct writers; all text is made visible."""

    def write(self, text: str) -> int:
        super().write(lines_shown(text))
        return len(text)

    def isatty(self) -> bool:
        """No: who thinks so sends colours, which would be made visible too."""
        return False


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Make all text written to ``sys.stdout`` and ``sys.stderr`` visible."""
    streams = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, _Guard(_raw(streams[0])))
    sys.stderr = cast(TextIO, _Guard(_raw(streams[1])))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


@contextlib.contextmanager
def raw_stdout() -> Iterator[None]:
    """Within it ``sys.stdout`` is the stream itself, for a library that speaks a protocol there."""
    filtered_stdout, sys.stdout = sys.stdout, _stdout()
    try:
        yield
    finally:
        sys.stdout = filtered_stdout


def with_streams() -> None:
    """Started with a stream closed, Python has none; a program that is run still has none."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _raw(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, _Fitting) else stream


def _stdout() -> TextIO:
    return _raw(sys.stdout)


def _stderr() -> TextIO:
    return _raw(sys.stderr)


# -- for people -----------------------------------------------------------------------------------


def out() -> Console:
    """Standard output for people: tables and sentences."""
    return _console(_stdout())


def err() -> Console:
    return _console(_stderr())


def page(width: int, colours: bool = True) -> tuple[Console, Callable[[], str]]:
    """A console that writes on a page so many columns wide, and what it wrote."""
    written = io.StringIO()
    console = _console(written, width, colours)
    return console, written.getvalue


def narrate(text: str, end: str = "\n") -> None:
    """One line of narration on standard error, or a question whose answer is typed behind it."""
    # In one piece: several threads have something to say.
    _Guard(_stderr()).write(f"{text}{end}")
    _stderr().flush()


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """A line on standard error that what it yields rewrites; nothing where that is no terminal."""
    console = err()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(text) as status:
        # A line that is folded is not drawn over.
        yield lambda line: status.update(lines_shown(line)[: max(console.width - 4, 1)])


def rows(texts: Iterable[Text]) -> None:
    """Lines with styles on standard output, not folded or cut; there may be millions."""
    console, remaining = out(), iter(texts)
    stream = _Guard(_stdout())
    while batch := list(islice(remaining, ROWS)):
        if console.color_system is None:
            stream.write("".join(f"{text.plain}\n" for text in batch))
            stream.flush()
        else:
            console.print(type(batch[0])("\n").join(batch), soft_wrap=True)


def answer(prompt: str) -> str | None:
    """A line typed behind a prompt, with a history, or out of a pipe; None at the end."""
    if sys.stdin.isatty() and to_terminal():
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")
        flush()
        with raw_stdout(), contextlib.suppress(EOFError):
            return input(lines_shown(prompt))
        return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def lines(texts: Iterable[str]) -> None:
    stream = _Guard(_stdout())
    for text in texts:
        stream.write(f"{text}\n")


# -- data -----------------------------------------------------------------------------------------


def json_line(text: str) -> None:
    """Write a JSON document on one line."""
    json_pieces((text,))


def json_pieces(pieces: Iterable[str]) -> None:
    """Write one JSON document on one line, piece by piece."""
    stream = _stdout()
    for piece in pieces:
        if not piece.isascii() or not piece.isprintable():
            raise ValueError("JSON that is not escaped")
        stream.write(piece)
    stream.write("\n")


def verbatim(text: str) -> None:
    """The text of a stage as it was recorded, byte for byte; to a terminal, made visible."""
    stream = _stdout()
    binary: io.BufferedIOBase | None = getattr(stream, "buffer", None)
    if stream.isatty():
        _Guard(stream).write(text)
    elif binary is None:
        stream.write(text)
    else:
        stream.flush()
        binary.write(text.encode("utf-8", "surrogateescape"))
        binary.flush()


def relay(data: bytes) -> None:
    """What a program wrote on the terminal that was lent to it."""
    os.write(_stdout().fileno(), data)


# -- what they lead to ----------------------------------------------------------------------------


def to_terminal() -> bool:
    return _stdout().isatty()


def at_terminal() -> bool:
    """Whether somebody sits there who reads questions and can answer them."""
    return sys.stdin.isatty() and _stderr().isatty()


def descriptor() -> int:
    """The descriptor of standard output, for its size and what is lent."""
    return _stdout().fileno()


def flush() -> None:
    _stdout().flush()
    _stderr().flush()


def give_up() -> None:
    """Discard buffered output once the reader has gone."""
    for stream in (_stdout(), _stderr()):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _console(stream: TextIO, width: int | None = None, colours: bool = True) -> Console:
    """A console on a stream: no colour where it is no terminal, or with NO_COLOR.

    With ``width`` it writes on a page so many columns wide. Else a table that is not for a terminal
    is as wide as it needs to be, up to a page.
    """
    sizes = _terminal_size()
    environment = {k: v for k, v in os.environ.items() if k not in SIZE_VARIABLES} | sizes
    if width is not None:
        return _printer()(
            file=stream,
            width=width,
            force_terminal=colours,
            color_system="standard" if colours else None,
            _environ=environment,
        )
    if not stream.isatty():
        width = int(sizes.get("COLUMNS", 0)) or PAGE
    return _printer()(file=cast(TextIO, _Fitting(stream)), width=width, _environ=environment)


SIZE_VARIABLES = ("COLUMNS", "LINES")


def _terminal_size() -> dict[str, str]:
    """The variables of a terminal's size that hold a number of up to five digits.

    Rich believes that what isdigit() is a number, such as a superscript 2.
    """
    sizes = {}
    for name in SIZE_VARIABLES:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdecimal() and 0 < len(value) < 6:
            sizes[name] = value
    return sizes


@functools.cache
def _printer() -> Callable[..., Console]:
    """The class of our consoles; Rich is loaded by the first that is asked for."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Span, Text

    def visible(text: Text) -> Text:
        """The same text made visible, its styles where they were."""
        characters = text.plain
        escaped = lines_shown(characters)
        if escaped == characters:
            return text
        starts = [0]
        for char in characters:
            starts.append(starts[-1] + len(lines_shown(char)))
        out = text.blank_copy(escaped)
        for span in text.spans:
            start = starts[min(span.start, len(characters))]
            end = starts[min(span.end, len(characters))]
            out.spans.append(Span(start, end, span.style))
        return out

    def visible_segment(segment: Segment) -> Segment:
        text, style, control = segment
        if control:  # Rich's own, which a line of progress is drawn over with; no text has any
            return segment
        if style is not None and style.link:  # an address is an escape sequence too
            style = style.update_link(None)
        return Segment(lines_shown(text), style)

    class Printer(Console):
        """A console that lets only its own colours through."""

        def __init__(self, **options: Any) -> None:
            super().__init__(
                highlight=False, markup=False, force_jupyter=False, emoji=False, **options
            )

        def render_str(self, text: str, *args: object, **options: object) -> Text:
            """Text without markup, made visible before anybody measures it."""
            return super().render_str(lines_shown(text), *args, **options)  # type: ignore[arg-type]

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """Draw an object: text is made visible before it is folded and cut."""
            if isinstance(renderable, Text):
                renderable = visible(renderable)
            return super().render(renderable, options)

        def _render_buffer(self, buffer: Iterable[Segment]) -> str:
            """Filter at the last place before the stream."""
            return super()._render_buffer(map(visible_segment, buffer))

        def on_broken_pipe(self) -> None:
            """Rich would exit with 1, which is "found a difference"; ``cli`` knows what to do."""
            raise BrokenPipeError

    return Printer
