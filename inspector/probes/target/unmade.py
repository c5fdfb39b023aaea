"""With ``--values none``: what a program reads is zero, and its comparisons are not made.

Each is counted by its place in the program, said at the end and recorded: a check that was not
made is never taken for one that was passed.
"""

from __future__ import annotations

import ast
import atexit
import ctypes
import functools
import linecache
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from types import FrameType
from typing import Any

from ..hooks import when_imported
from ..writer import emit
from . import native, say

CHECK, READ = "check", "read"
# Places that one line on stderr names.
SHOWN = 5
_NUMPY_TESTING = (
    "assert_allclose", "assert_almost_equal", "assert_approx_equal", "assert_array_almost_equal",
    "assert_array_almost_equal_nulp", "assert_array_equal", "assert_array_less",
    "assert_array_max_ulp", "assert_equal",
)  # fmt: skip

_counts: Counter[tuple[str, str, str]] = Counter()
_lock = threading.Lock()
_kept: list[Any] = []


def attach(torch: Any) -> None:
    """Let reads give zeros and comparisons be passed over; called once, after torch's import."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    _kept.append(kind(lambda name: _count(READ, name.decode("utf-8", "replace"))))
    native.library().ptxview_on_read(_kept[-1])
    for name in ("allclose", "equal"):
        for owner, owned in ((torch, "torch"), (torch.Tensor, "Tensor")):
            comparison = _passed_over(getattr(owner, name), f"{owned}.{name}", True, own=True)
            setattr(owner, name, comparison)
    torch.Tensor.__bool__ = _truth(torch.Tensor.__bool__)
    when_imported("torch.testing._comparison", _testing)
    when_imported("numpy.testing", _numpy_testing)
    when_imported("numpy", _numpy)
    atexit.register(_report)


def _testing(module: Any) -> None:
    # assert_close is made of it, and so is what torch's own TestCase compares with.
    name = "not_close_error_metas"
    if hasattr(module, name):
        setattr(module, name, _passed_over(getattr(module, name), "torch.testing.assert_close", []))


def _numpy_testing(module: Any) -> None:
    for name in _NUMPY_TESTING:
        if hasattr(module, name):
            original = getattr(module, name)
            setattr(module, name, _passed_over(original, f"numpy.testing.{name}", None))


def _numpy(module: Any) -> None:
    for name in ("allclose", "array_equal"):
        original = getattr(module, name)
        setattr(module, name, _passed_over(original, f"numpy.{name}", True, own=True))


# -- what stands in for a comparison --------------------------------------------------------------


def _passed_over(
    original: Callable[..., Any], name: str, result: Any, own: bool = False
) -> Callable[..., Any]:
    """The comparison, which is not made where a value of it is absent or may come of one.

    What was read as zero leaves no trace in a number: after the first read no comparison is made.
    ``own``: libraries compare with it for purposes of their own; only the program's calls count.
    """

    @functools.wraps(original)
    def compare(*args: Any, **given: Any) -> Any:
        if own and not _is_own(sys._getframe(1).f_code.co_filename):
            return original(*args, **given)
        if not (_read_before() or any(map(_absent, (*args, *given.values())))):
            return original(*args, **given)
        _count(CHECK, name)
        return list(result) if isinstance(result, list) else result

    compare._torchdynamo_disable = True  # type: ignore[attr-defined]
    return compare


def _absent(value: Any) -> bool:
    """Whether a value is a CUDA tensor, or holds one: none has its value in such a run."""
    import torch

    if isinstance(value, torch.Tensor):
        return bool(value.is_cuda)
    if isinstance(value, dict):
        return any(map(_absent, value.values()))
    return isinstance(value, (tuple, list)) and any(map(_absent, value))


def _read_before() -> bool:
    return any(what == READ for what, _, _ in _counts)


def _truth(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """``Tensor.__bool__``: what an ``assert`` asks is a check, and is not made."""

    @functools.wraps(original)
    def truth(self: Any) -> bool:
        if self.is_cuda and (asserted := _asserted(sys._getframe(1))) is not None:
            _count(CHECK, "assert")
            return asserted
        return original(self)

    return truth


def _asserted(frame: FrameType) -> bool | None:
    """What the ``assert`` that runs now wants a value to be; None where none runs."""
    for first, last, wanted in _asserts(frame.f_code.co_filename):
        if first <= frame.f_lineno <= last:
            return wanted
    return None


@functools.cache
def _asserts(file: str) -> tuple[tuple[int, int, bool], ...]:
    """The assert statements of a file: their first and last lines, and what each wants.

    One that has a ``not`` further within is not among them: what it wants of each value differs.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    asserts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            test, wanted = node.test, True
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, wanted = test.operand, not wanted
            if not any(isinstance(part, ast.Not) for part in ast.walk(test)):
                asserts.append((node.lineno, node.end_lineno or node.lineno, wanted))
    return tuple(asserts)


# -- where, and how often -------------------------------------------------------------------------


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders of torch, numpy and Triton, and ours."""
    specs = (find_spec(name) for name in ("numpy", "triton", "torch"))
    folders = [os.path.dirname(s.origin) for s in specs if s is not None and s.origin]
    ours = os.path.dirname(os.path.dirname(__file__))
    return tuple(folder + os.sep for folder in (*folders, ours))


# Python's own modules; what is installed lies below them.
_PYTHON = os.path.dirname(os.__file__) + os.sep


def _is_own(file: str) -> bool:
    """Whether a file is the program's, or of what it has installed: no library of these."""
    if file.startswith(("<", *_libraries())):
        return False
    return not file.startswith(_PYTHON) or "site-packages" in file


def _place() -> str:
    """The innermost line of the program that runs now, as ``file.py:12``."""
    frame: FrameType | None = sys._getframe(1)
    outermost = ""
    while frame is not None:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if _is_own(frame.f_code.co_filename):
            return place
        outermost, frame = place, frame.f_back
    return outermost


def _count(what: str, name: str) -> None:
    place = _place()
    with _lock:
        _counts[what, name, place] += 1


def _report() -> None:
    """Once, at the program's end: on stderr in a line each, and in the recording."""
    with _lock:
        counts = dict(_counts)
    for (what, name, place), count in counts.items():
        emit({"event": "unmade", "what": what, "name": name, "place": place, "count": count})
    checks = {key: n for key, n in counts.items() if key[0] == CHECK}
    reads = {key: n for key, n in counts.items() if key[0] == READ}
    if checks:
        number = sum(checks.values())
        one = (
            "1 check of the program was" if number == 1 else f"{number} checks of the program were"
        )
        say.once("unmade", f"{one} not made (--values none): {_places(checks)}")
    if reads:
        number = sum(reads.values())
        one = "1 value that is absent was" if number == 1 else f"{number} absent values were"
        say.once("read-absent", f"{one} read, as zero (--values none): {_places(reads)}")


def _places(counts: dict[tuple[str, str, str], int]) -> str:
    by_place: Counter[str] = Counter()
    for (_, _, place), count in counts.items():
        by_place[os.path.relpath(place) if os.path.isabs(place) else place] += count
    shown = [f"{p} ({n} times)" if n > 1 else p for p, n in list(by_place.items())[:SHOWN]]
    more = len(by_place) - len(shown)
    return ", ".join(shown) + (f" and {more} more places" if more else "")
