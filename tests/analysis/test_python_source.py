"""A function that is cut out of a file runs alone, and does what it did there."""

from __future__ import annotations

import math
from typing import Any

import pytest

from inspector.analysis.python_source import CutSource, cut_function
from inspector.base.errors import Unreadable, UsageError

FILE = '''
"""A module."""
from __future__ import annotations
import math as maths
import os, sys
from collections import OrderedDict as Ordered, deque
import a_package_that_nobody_has

RATE = 3
TWICE = RATE * 2
if RATE > 2:
    KIND = "fast"
else:
    KIND = "slow"
try:
    import another_one_that_nobody_has as extra
except ImportError:
    extra = None

raise_if_run = 1 / 0


class Pair:
    """Two."""

    def __init__(self, a, b):
        self.sum = helper(a) + b


def decorated(function):
    return lambda *args: function(*args) + 0.5


@decorated
def helper(a):
    raise_if_run = a  # a local of that name
    return raise_if_run * TWICE


def wanted(x, deque=None):
    """It uses a bit of all."""
    late = Ordered(kind=KIND)
    return maths.floor(Pair(x, RATE).sum), late["kind"], extra, deque, [i for i in range(2)]


def outer():
    def inner(y):
        return y + RATE
    return inner


def unused():
    return a_package_that_nobody_has.x


if __name__ == "__main__":
    wanted(sys.argv)
    RATE = 1000
'''


def run(cut: CutSource) -> dict[str, Any]:
    """What the script's part with it defines, run as the script would be."""
    future = f"from __future__ import {', '.join(cut.future)}\n" if cut.future else ""
    space: dict[str, Any] = {}
    exec(compile(future + "\n".join([*cut.imports, cut.text]), "cut", "exec"), space)
    return space


def test_a_function_has_all_that_it_needs_and_no_more() -> None:
    cut = cut_function(FILE, "/x/file.py", "wanted", jitted=False)
    space = run(cut)
    assert space["wanted"](2) == (math.floor(2 * 6 + 0.5 + 3), "fast", None, None, [0, 1])
    assert cut.future == ("annotations",) and not cut.unknown
    assert "unused" not in space and "os" not in space and "deque" not in space
    assert "a_package_that_nobody_has" not in cut.text and "__main__" not in cut.text


def test_a_function_within_another_stands_alone_and_of_several_the_one_that_is_meant() -> None:
    space = run(cut_function(FILE, "/x/file.py", "inner", jitted=False))
    assert space["inner"](1) == 4
    text = "def f():\n    return 1\n\n\ndef f():\n    return 2\n"
    assert run(cut_function(text, "f.py", "f", 1, jitted=False))["f"]() == 1
    assert run(cut_function(text, "f.py", "f", jitted=False))["f"]() == 2


OTHERS = {
    "/home/p/kit/__init__.py": "from .parts import base\nNAME = 'kit'\n",
    "/home/p/kit/parts.py": "from . import numbers as n\n"
    "def base(x):\n    return x + n.ONE + two()\ndef two():\n    return 2\n"
    "def never():\n    return 1 / 0\n",
    "/home/p/kit/numbers.py": "ONE = 1\nraise SystemExit\n",
    "/home/q/parts.py": "def base(x):\n    return 'of another'\n",
}


@pytest.mark.parametrize(
    "lines",
    [
        "from kit.parts import base as b\ndef f(x):\n    return b(x)\n",
        "from kit.parts import *\ndef f(x):\n    return base(x)\n",
        "import kit.parts as p\ndef f(x):\n    return p.base(x)\n",
        "from kit import parts\ndef f(x):\n    return parts.base(x)\n",
        "from .kit.parts import base\ndef f(x):\n    return base(x)\n",
        "from kit import base\ndef f(x):\n    return base(x)\n",
    ],
)
def test_what_other_files_define_is_taken_from_them(lines: str) -> None:
    cut = cut_function(lines, "/home/p/main.py", "f", other_files=OTHERS, jitted=False)
    assert run(cut)["f"](10) == 13
    assert "never" not in cut.text and not cut.outside and not cut.unknown


def test_what_is_imported_from_elsewhere_is_said() -> None:
    text = (
        "import torch, flash\nfrom x.y import g\ndef f():\n    return g(flash.a, torch.b, nobody)\n"
    )
    cut = cut_function(text, "/m.py", "f", jitted=False)
    assert set(cut.outside) == {"flash", "x.y"} and cut.unknown == ("nobody",)
    assert set(cut.imports) == {"import torch", "import flash", "from x.y import g"}


def test_a_global_is_what_it_was_when_it_was_compiled() -> None:
    text = "import os\nN = tl.constexpr(int(os.environ['N']))\ndef k():\n    return N\n"
    cut = cut_function(text, "/m.py", "k", recorded={"/m.py": {"N": 7}, "/other.py": {"N": 8}})
    assert cut.statements[0] == "N = tl.constexpr(7)" and "import os" not in cut.imports
    text = "from settings import N\ndef k():\n    return N, M\n"
    values = {"N": float("inf"), "M": None}
    cut = cut_function(text, "/m.py", "k", recorded={"/m.py": values})
    assert cut.statements[:-1] == ("M = tl.constexpr(None)", 'N = tl.constexpr(float("inf"))')
    assert not cut.imports and not cut.outside and not cut.unknown


def test_what_tunes_a_kernel_is_left_out() -> None:
    text = """
import triton
CONFIGS = [triton.Config({})]
@triton.autotune(CONFIGS, key=[])
@triton.heuristics({"EVEN": lambda args: True})
@triton.jit(do_not_specialize=["n"])
def k(n):
    pass
"""
    cut = cut_function(text, "/m.py", "k")
    assert cut.text == "@triton.jit(do_not_specialize=['n'])\ndef k(n):\n    pass"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def k(:\n", r"m\.py"),
        ("\0", r"m\.py"),
        ("x = " + "(" * 100_000, r"m\.py"),
        ("def k():\n\treturn 1\n  return 2\n", r"m\.py"),
        ("def other():\n    pass\n", r"m\.py has no function k"),
        # Two files that mean different things by a name.
        ("from a import f\nRATE = 1\ndef k():\n    return f() + RATE\n", "both define RATE"),
    ],
)
def test_what_cannot_be_cut_is_refused_in_a_sentence(text: str, said: str) -> None:
    others = {"/a.py": "RATE = 2\ndef f():\n    return RATE\n"}
    with pytest.raises((Unreadable, UsageError), match=said):
        cut_function(text, "/m.py", "k", other_files=others, jitted=False)


def test_a_form_feed_ends_no_line() -> None:
    text = "A = 1\x0c\nB = '\u2028\x1c'\r\ndef f():\r    return A, B\n"
    assert run(cut_function(text, "f.py", "f", jitted=False))["f"]() == (1, "\u2028\x1c")


def test_what_is_nested_too_deep_is_said() -> None:
    functions = (f"def f{n}():\n    return f{n + 1}()\n" for n in range(3000))
    with pytest.raises(Unreadable, match="nested too deep"):
        cut_function("".join(functions), "/h/f.py", "f0", jitted=False)
    others = dict.fromkeys((".py", "..py", "/.py", "a/..py"), "from f import f")
    text = "from odd import g\ndef f():\n    return g\n"
    assert cut_function(text, "/h/f.py", "f", other_files=others, jitted=False).outside == ("odd",)
