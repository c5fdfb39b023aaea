"""Names of a CUDA C++ kernel's parameters against the source that it was compiled from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from inspector.analyse.sentences.cuda_names import parameter_names
from inspector.listing.cuda_signatures import signatures
from inspector.listing.ptx import parse_ptx
from inspector.listing.ptx_declaration import Declared, read_header
from inspector.names import argument_types
from inspector.system.toolchain import demangle
from tests.helpers.ptxview import tool

EXAMPLE = Path(__file__).parents[3] / "examples" / "recordings" / "lecture-h200.ptxview"

SOURCE = r"""
#include <cstdint>
#define RESTRICT __restrict__
#define real float
#define PAIR(t, n) t n, int n##_count
#define WEIRD width, int
/* __global__ void comment(int no) {} */
const char *text = "__global__ void text(int no) {";
const char *raw = R"x(__global__ void raw(int no) { )" )x";

struct S { int a; float b; };
using Index = std::int64_t;
typedef const float *Row;

namespace {
__global__ void hidden(int *p, unsigned n) { p[0] = n; }
}

namespace a { namespace b {
template <typename T, int N = (3 > 2)>
__global__ void scale(const T *__restrict__ x,  // the input, not y
                      T factor /* , int no */, T out[4]) { out[0] = x[0] * factor + N; }
} }
namespace c::d { inline namespace v1 {
__global__ void nested(Row row, Index n, real value, const S s, float *RESTRICT z) {
  z[0] = row[n] + value + s.b;
}
} }

static __global__ void quiet(float *q, void (*callback)(int)) { callback((int)q[0]); }

extern "C" __global__ __launch_bounds__(256, 2) void
plain(const S s, long long w, const float *const *rows, bool flag, float (*tile)[4])
{ tile[0][1] = rows[0][0] + s.b + w + flag; }

extern "C" {
[[maybe_unused]] __global__ void
    __launch_bounds__(128)
    other(volatile unsigned char *bytes, std::size_t size) { bytes[0] = size; }
}

__global__ void many(float *x, int n) { x[n] = 0; }
__global__ void many(int *y, int m) { y[m] = 0; }
__global__ void many(double *z, float q) { z[0] = q; }
__global__ void defaults(int *x, int n = (1 < 2), int k = 3) { x[n] = k; }
__global__ void nameless(int *, const unsigned int, int *used) { used[0] = 1; }
__global__ void paired(PAIR(float *, x)) { x[0] = x_count; }
template <typename... A> __global__ void variadic(A... parts) {}
__global__ void forward(int *wrong, int also);
__global__ void forward(int *right, int good) { right[good] = 0; }
#if __CUDA_ARCH__ >= 700
__global__ void branched(int *x, int fast) { x[fast] = 1; }
#else
__global__ void branched(int *x, int slow) {
  x[slow] = 2;
}
#endif
#ifdef NEVER
__global__ void opened(float *x) {
#else
__global__ void opened(int *x) {
#endif
  x[0] = 1; }
__global__ void cut(int *x,
#ifdef NEVER
  int one
#else
  int two
#endif
) { x[two] = 0; }
template <int N> __global__ void which(int *left) { left[0] = N; }
template <typename T> __global__ void which(int *right) { right[0] = sizeof(T); }
template <typename T> __global__ void special(T *general, int n) { general[n] = 0; }
template <> __global__ void special<float>(float *exact, int n) { exact[n] = 1; }

template __global__ void a::b::scale<float, 3>(const float *, float, float *);
using byte = unsigned char;
template __global__ void a::b::scale<byte>(const byte *, byte, byte *);
template __global__ void variadic<int, int>(int, int);
template __global__ void which<3>(int *);
template __global__ void special<int>(int *, int);
void use() { hidden<<<1, 1>>>(0, 1); quiet<<<1, 1>>>(0, 0); }
"""

EXPECTED = {
    "_ZN36_GLOBAL__N__028a17f1_4_s_cu_c_kernel6hiddenEPij": ("p", "n"),
    "_ZN1a1b5scaleIfLi3EEEvPKT_S2_PS2_": ("x", "factor", "out"),
    "_ZN1a1b5scaleIhLi1EEEvPKT_S2_PS2_": ("x", "factor", "out"),
    "_ZN1c1d2v16nestedEPKflf1SPf": ("row", "n", "value", "s", "z"),
    "_Z5quietPfPFviE": ("q", "callback"),
    "_Z4manyPfi": ("x", "n"),
    "_Z4manyPii": ("y", "m"),
    "_Z4manyPdf": ("z", "q"),
    "_Z8defaultsPiii": (),
    "_Z8namelessPijS_": (None, None, "used"),
    "_Z6pairedPfi": (),
    "_Z8variadicIJiiEEvDpT_": (),
    "_Z7forwardPii": ("right", "good"),
    "_Z8branchedPii": ("x", None),
    "_Z6openedPi": ("x",),
    "_Z3cutPii": (),
    "_Z5whichILi3EEvPi": (None,),
    "_Z7specialIiEvPT_i": ("general", "n"),
    # Not of this source: another number of parameters, other types, another namespace, no template.
    "_Z4manyPfii": (),
    "_Z4manyPci": (),
    "_ZN1a5scaleEPf": (),
    "_ZN1a4manyEPfi": (),
    "_Z4textii": (),
    "_Z7commenti": (),
    "_Z3rawi": (),
}


@pytest.mark.parametrize("symbol", EXPECTED)
def test_names_by_the_mangled_name(symbol: str) -> None:
    (demangled,) = demangle([symbol])
    assert demangled.endswith(")"), "c++filt is needed"
    types = argument_types(demangled)
    names = parameter_names(signatures(SOURCE), symbol, demangled, types, ())
    if symbol == "_Z8defaultsPiii":
        assert names in ((), ("x", "n", "k"))  # less than, or a template's arguments
    else:
        assert names == EXPECTED[symbol]


def declared(*sizes: int) -> list[Declared]:
    return [Declared(f"p{i}", f".b{8 * size}", size, 0) for i, size in enumerate(sizes)]


def test_names_of_what_is_not_mangled_fit_what_ptx_declares() -> None:
    source = signatures(SOURCE)

    def names(symbol: str, *sizes: int) -> tuple[str | None, ...]:
        return parameter_names(source, symbol, symbol, (), declared(*sizes))

    assert names("plain", 8, 8, 8, 1, 8) == ("s", "w", "rows", "flag", "tile")
    assert names("other", 8, 8) == ("bytes", "size")
    assert names("plain", 8, 8, 8, 1) == names("plain", 8, 4, 8, 1, 8) == ()
    assert names("other", 8, 4) == names("nobody", 8, 8) == ()


def test_names_are_the_compilers_own(tmp_path: Path) -> None:
    """nvcc compiles the source: every kernel's declared parameters get names, or none."""
    (tmp_path / "k.cu").write_text(SOURCE)
    subprocess.run(
        [tool("nvcc"), "-ptx", "-arch=sm_90", "-o", tmp_path / "k.ptx", tmp_path / "k.cu"],
        check=True,
    )
    listing = parse_ptx((tmp_path / "k.ptx").read_text())
    source = signatures(SOURCE)
    entries = [f for f in listing.functions if f.entry]
    found = {}
    for function, demangled in zip(entries, demangle([f.name for f in entries]), strict=True):
        parameters = read_header(listing, function).parameters
        types = argument_types(demangled)
        found[demangled] = parameter_names(source, function.name, demangled, types, parameters)
        assert len(found[demangled]) in (0, len(parameters))
    assert found["plain"] == ("s", "w", "rows", "flag", "tile")
    assert found["(anonymous namespace)::hidden(int*, unsigned int)"] == ("p", "n")
    assert found["void a::b::scale<float, 3>(float const*, float, float*)"] == (
        "x", "factor", "out",
    )  # fmt: skip


def test_sentences_say_the_names() -> None:
    for stage in ("ptx", "sass"):
        shown = subprocess.run(
            [sys.executable, "-m", "inspector", "show", EXAMPLE, "square_matrix_kernel",
             "--stage", stage, "-a"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert "width" in shown and "height" in shown
        assert "parameter 2 is width: int" in shown or stage == "sass"


HOSTILE = {
    "corners": ("", "template <", "__global__ void f(int x) {}"),
    "parentheses": ("__global__ void f(", "(", ""),
    "braces": ("__global__", "{", ""),
    "conditionals": ("__global__ void f(int x) {}\n", "#if 1\nnamespace a {\n#else\n", ""),
    "comment": ("__global__ ", "/*", ""),
    "directive": ("__global__ \n", "# /*\n", ""),
    "raw": ("__global__ ", 'R"(', ""),
    "text": ("__global__ ", '"\\', ""),
    "kernels": ("", "__global__ void f(int a, T<int> b = 3) {}\n", ""),
    "attributes": ("", "__launch_bounds__(", "__global__ void f(int x) {}"),
    "alias": ("", "using T = T*;\n", "__global__ void f(T x) {}"),
    "arrays": ("__global__ void f(int x", "[1]", ") {}"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_grows_with_the_text(kind: str) -> None:
    """Four times the text takes four times the steps of the interpreter, not sixteen."""
    before, part, after = HOSTILE[kind]

    def steps(count: int) -> int:
        text = before + part * count + after
        seen = 0

        def count_line(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal seen
            seen += 1
            return count_line

        sys.settrace(count_line)
        try:
            signatures(text)
        finally:
            sys.settrace(None)
        return seen

    assert steps(4000) < 8 * steps(1000) + 2000
