"""Kernels of numba.cuda: recorded in numba's words, and read like any other kernel.

``tests/data/numba`` holds a recording that numba itself made without a GPU (``scale.py`` there says
how). What asks numba for it runs here beside stand-ins that give what numba gave.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from inspector.recording.layout import Writer
from tests.helpers.ptxview import REPOSITORY, call, printed, saved, tool, variants_of
from tests.probes.test_uncaptured import ran

DATA = REPOSITORY / "tests" / "data" / "numba"
RECORDING = DATA / "numba.ptxview"
CODEGEN = """
class CUDACodeLibrary:
    def __init__(self, name):
        self.name = name
    def get_asm_strs(self, cc=None):
        return [open(f"{DATA}/{self.name}.ptx").read()]
    def get_asm_str(self, cc=None):
        return "\\n".join(self.get_asm_strs(cc))
    def get_llvm_str(self):
        return f"define void @{self.name}()"
    def get_cubin(self, cc=None):
        class ObjectCode:
            code = b"\\x7fELF of " + self.name.encode()
        return ObjectCode()
"""
DISPATCHER = """
from numba.cuda.codegen import CUDACodeLibrary
class _Kernel:
    def __init__(self, py_func, argtypes, link=None, lineinfo=False):
        self.py_func, self.argtypes = py_func, argtypes
        self._codelibrary = CUDACodeLibrary(argtypes[0])
        if argtypes[0] == "refused":
            raise TypeError("no such type")
        self._codelibrary.get_asm_str()
        self.entry_name = "of_" + argtypes[0]
"""
COMPILER = """
from numba.cuda.codegen import CUDACodeLibrary
def compile(pyfunc, sig, lineinfo=False, device=True, cc=None):
    return CUDACodeLibrary("device" if device else "alone").get_asm_strs(cc)[0], None
"""
PROGRAM = """
from numba.cuda.compiler import compile
from numba.cuda.dispatcher import _Kernel

def scale(x, n):
    return x

for kind in ("float32", "float64"):
    _Kernel(scale, (kind, "int32"))._codelibrary.get_cubin()
_Kernel(scale, ("float32", "int32"))
try:
    _Kernel(scale, ("refused", "int32"))
except TypeError as error:
    print(error)
compile(scale, ("float32", "int32"), device=False)
compile(scale, ("float32", "int32"))
"""


def test_each_signature_is_recorded_with_all_that_numba_gives(tmp_path: Path) -> None:
    for name, entry in (("float32", "of_float32"), ("float64", "of_float64"), ("alone", "k")):
        (tmp_path / f"{name}.ptx").write_text(f".version 9.0\n.visible .entry {entry}() {{}}\n")
    (tmp_path / "device.ptx").write_text(".version 9.0\n.visible .func scale() {}\n")
    modules = {
        "numba.cuda.codegen": CODEGEN.replace("{DATA}", str(tmp_path)),
        "numba.cuda.dispatcher": DISPATCHER,
        "numba.cuda.compiler": COMPILER,
    }
    told = [e for e in ran(tmp_path, PROGRAM, modules) if e["event"] == "uncaptured"]

    def kept(event: dict[str, Any], key: str) -> str:
        return (tmp_path / "recording" / "blobs" / str(event[key])).read_text()

    # Twice each: when it is compiled and when it is linked; then alone.
    assert [(e.get("symbol"), "cubin" in e) for e in told] == [
        ("of_float32", False),
        ("of_float32", True),
        ("of_float64", False),
        ("of_float64", True),
        ("k", False),
    ]
    for event, kind in zip(told[:4], ["float32"] * 2 + ["float64"] * 2, strict=True):
        assert event["signature"] == {"x": kind, "n": "int32"}
        assert kept(event, "llir") == f"define void @{kind}()"
        assert f".entry of_{kind}" in kept(event, "ptx")
        lines = kept(event, "source").splitlines()
        first, last = event["lines"]
        assert lines[first - 1] == "def scale(x, n):" and lines[last - 1] == "    return x"
    assert kept(told[3], "cubin") == "\x7fELF of float64"
    assert kept(told[4], "llir") == "define void @alone()"


TYPING = """Failed in cuda mode pipeline (step: nopython frontend)
Unknown attribute 'nothing' of type int32

File "program.py", line 6:
def scale(x, n):
    return n.nothing
    ^

During: typing of get attribute at {PROGRAM} (6)

File "program.py", line 6:
def scale(x, n):
    return n.nothing
    ^

During: Pass nopython_type_inference"""
NO_MATCH = """No implementation of function Function(<built-in function add>) found for signature:

 >>> add(array(float32, 1d, A), Literal[str](text))

There are 28 candidate implementations:"""
LINKED = """ERROR_INTERNAL (6)
nvJitLink error log: error   : Entry function 'of_big' uses too much shared data (0x61a80 bytes, \
0x38c00 max)
ERROR 9: complete
"""
REFUSING = """
class TypingError(Exception):
    pass
from numba.cuda.codegen import CUDACodeLibrary
class _Kernel:
    def __init__(self, py_func, argtypes, link=None, lineinfo=False):
        if argtypes[0] in WORDS:
            raise TypingError(WORDS[argtypes[0]].replace("{PROGRAM}", py_func.__code__.co_filename))
        self._codelibrary = CUDACodeLibrary(argtypes[0])
        self.entry_name = "of_" + argtypes[0]
        self._codelibrary.get_asm_str()
"""
"""What numba 0.68 with numba-cuda 0.30 says, word for word."""
REFUSED_PROGRAM = """
import traceback
from numba.cuda.compiler import compile; from numba.cuda.dispatcher import _Kernel

def scale(x, n):
    return n.nothing

for kind in ("typed", "unmatched", "big", "typed"):
    try:
        _Kernel(scale, (kind, "int32"))._codelibrary.get_cubin()
    except Exception:
        assert "probes" not in traceback.format_exc()
try:
    compile(scale, ("bare", "int32"))
except ValueError:
    assert "probes" not in traceback.format_exc()
"""


def test_what_numba_would_not_compile_is_a_variant_with_numbas_words(tmp_path: Path) -> None:
    """Typing, with a place and without one; the linker, which has PTX; a compile for no launch."""
    (tmp_path / "big.ptx").write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry of_big() { ret; }\n"
    )
    codegen = CODEGEN.replace("{DATA}", str(tmp_path)).partition("    def get_cubin")[0]
    modules = {
        "numba.cuda.codegen": f"class nvJitLinkError(Exception): pass\n{codegen}"
        f"    def get_cubin(self, cc=None):\n        raise nvJitLinkError({LINKED!r})\n",
        "numba.cuda.dispatcher": f"WORDS = {{'typed': {TYPING!r}, 'unmatched': {NO_MATCH!r}}}\n"
        + REFUSING,
        "numba.cuda.compiler": "def compile(pyfunc, sig):\n    raise ValueError('')\n",
    }
    told = [e for e in ran(tmp_path, REFUSED_PROGRAM, modules) if e["event"] == "made_failed"]
    assert [(e["signature"]["x"], e["kind"], e["stage"]) for e in told] == [
        ("typed", "TypingError", "ptx"),
        ("unmatched", "TypingError", "ptx"),
        ("big", "nvJitLinkError", "sass"),
        ("bare", "ValueError", "ptx"),
    ]
    writer = Writer(tmp_path / "recording")
    writer.event(event="recording", schema=1, command=["python"], mode="gpu", time=1.0)
    writer.close()
    listed = call("list", tmp_path / "recording", "--json").json
    variants = [v for _, v in variants_of(listed)]
    by_kind = {v["signature"]["x"]: v for v in variants}
    assert len(variants) == 4
    failed = {kind: v["failed"] for kind, v in by_kind.items()}
    assert "program.py:6: Unknown attribute 'nothing' of type int32" in failed["typed"]
    signature = "signature: add(array(float32, 1d, A), Literal[str](text))"
    assert "program.py:5: No implementation of function" in failed["unmatched"]
    assert failed["unmatched"].endswith(signature)
    assert "uses too much shared data (0x61a80 bytes, 0x38c00 max)" in failed["big"]
    assert failed["bare"].endswith("program.py:5: ValueError")
    assert [*by_kind["big"]["stages"]] == ["source", "llir", "ptx"]
    error = by_kind["big"]["error"]
    assert (error["required"], error["limit"], error["tool"]) == (400_000, 232_448, "nvJitLink")
    assert not listed["recording"]["problems"]
    compiled = listed["compiles"]["kernels"]
    assert [(k["by"], bool(k["failed"])) for k in compiled] == (
        [("numba.cuda", True)] * 2 + [("numba.cuda", False)] + [("numba.cuda", True)] * 2
    )
    assert {k["place"]["line"] for k in compiled} == {5, 6}
    assert all(k["seconds"] >= 0 for k in compiled)


def test_the_machine_code_is_what_numba_linked(tmp_path: Path) -> None:
    with zipfile.ZipFile(RECORDING) as archive:
        (events,) = (n for n in archive.namelist() if n.startswith("events-"))
        rows = [json.loads(line) for line in archive.read(events).splitlines()]
        cubins = {e["symbol"]: archive.read(f"blobs/{e['cubin']}") for e in rows if "cubin" in e}
    assert len(cubins) == 2
    for symbol, data in cubins.items():
        file = saved(tmp_path / "k.cubin", data)
        shown = call("show", RECORDING, symbol, "--stage", "sass").text
        assert shown.strip() == printed(tool("nvdisasm"), "-c", file).decode().strip()
