"""Which line of a kernel is being interpreted, and which frames of an error are the program's."""

from __future__ import annotations

import linecache
import os
import sys
from functools import cache
from importlib.util import find_spec
from types import CodeType, FrameType
from typing import Any

from . import build, nvcc

_PACKAGE = os.path.dirname(__file__) + os.sep


def _inner(code: CodeType) -> bool:
    """Whether a frame is the emulated device's, Triton's or a library's beneath them."""
    return code.co_filename.startswith(_PACKAGE) or _library(code.co_filename)


def _library(file: str) -> bool:
    return file.startswith(_libraries())


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of Triton and numpy."""
    specs = (find_spec(name) for name in ("numpy", "triton"))
    return tuple(os.path.dirname(s.origin) + os.sep for s in specs if s is not None and s.origin)


def _torch() -> tuple[str, ...]:
    folder = build.torch_folder()
    return (str(folder),) if folder else ()


def here() -> str:
    """The innermost line of the program that runs now: ``file.py:12: x = tl.load(p)``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _inner(frame.f_code):
            return _line(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return ""


def of(error: BaseException) -> str:
    """The innermost line of the program that an error came through; empty where none is."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if not _inner(trace.tb_frame.f_code):
            place = _line(trace.tb_frame.f_code, trace.tb_lineno)
        trace = trace.tb_next
    return place


def first_own(places: Any, file: str) -> str:
    """Of places in sources, innermost first, the first that is in the program's own.

    ``file`` is the kernel's: what Triton's cache kept may have been made of a copy of it elsewhere.
    """
    apart = tuple(os.path.realpath(home) + os.sep for home in (*nvcc.homes(), *_torch()))
    own = [
        place
        for place in places
        if not _library(place.file) and not os.path.realpath(place.file).startswith(apart)
    ] or list(places)[:1]
    if not own:
        return ""
    same = os.path.basename(own[0].file) == os.path.basename(file)
    return _text(file if same else own[0].file, own[0].line)


def _line(code: CodeType, number: int) -> str:
    return _text(code.co_filename, number)


def _text(file: str, number: int) -> str:
    text = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}: {text}"[:120]


def shortened(error: Any) -> Any:
    """The same error without the frames of the interpreter: the program's own lines stay."""
    whole = []
    trace = error.__traceback__
    while trace is not None:
        whole.append(trace)
        trace = trace.tb_next
    kept = [trace for trace in whole if not _inner(trace.tb_frame.f_code)]
    for trace, following in zip(kept, [*kept[1:], None], strict=True):
        trace.tb_next = following
    return error.with_traceback(kept[0] if kept else None)
