"""Compare PTX instructions on edge values: their bits on a GPU and by ptxview's own execution.

    python -m tests.gpu.edge_values [WORD…] [--print] [--out FOLDER]

Run by hand on a machine with a GPU. The forms are those of edge_forms.toml whose opcode has a WORD;
each is one kernel, loaded by the CUDA driver and run on every combination of its edge
values. Prints a row a form; 1 where any differs by more than the PTX ISA allows. ``--out`` writes
every difference, and a digest of the GPU's results of each form that may not differ: those of an
H200 are tests/data/execute/h200/edge_values.txt. ``--print`` needs no GPU: the results here.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import itertools
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from inspector.execute import CannotRun, Memory, Program, execute
from inspector.execute.kinds import WIDTHS
from inspector.execute.program import Argument

Array = np.ndarray[Any, Any]

FORMS = Path(__file__).with_name("edge_forms.toml")
BOUNDS = Path(__file__).resolve().parents[2] / "inspector" / "reference" / "approximate.toml"
LOWEST_SM = 90
ISA_VERSIONS = {90: "8.6"}
BLOCK = 256
FILES = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}
"""Registers by their bits; numbers of 8 bits are in those of 16."""
DIFFERENCES_SHOWN = 64
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction with its operands' types; ``sources`` may be immediates."""

    opcode: str
    results: tuple[str, ...]
    sources: tuple[str, ...]
    statements: str
    sm: int
    domain: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        sm = "" if self.sm == LOWEST_SM else f" (sm_{self.sm})"
        count = len([s for s in self.sources if not is_immediate(s)])
        return f"{self.opcode} of {count}{sm}"


class Outcome(NamedTuple):
    """A form's results on a GPU beside ours: rows that differ, and those that may not."""

    different: Array
    forbidden: Array


@dataclass(slots=True)
class Table:
    """The forms of a file and the values of their operands."""

    values: Mapping[str, tuple[int, ...]]
    forms: list[Form] = field(default_factory=list)

    def of(self, operand: str) -> tuple[int, ...]:
        """The edge values of a source operand."""
        kind, _, name = operand.partition(":")
        for key in (name or kind, f"b{WIDTHS.get(kind, 0)}"):
            if key in self.values:
                return self.values[key]
            if key.endswith("x2"):
                return packed_values(key, self.values)
        raise KeyError(f"no edge values for {operand!r} in {FORMS.name}")


def packed_values(kind: str, values: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Pairs of a packed type: each value of its half beside another one."""
    width = WIDTHS.get(kind, 64) // 2
    low = values.get(kind[:-2], tuple(range(1 << width)) if width <= 8 else ())
    shift = len(low) // 3
    return tuple(a | b << width for a, b in zip(low, low[shift:] + low[:shift], strict=True))


def spread(text: str) -> Iterator[str]:
    """Every text that braces with commas expand to: ``{add,sub}.f32``."""
    if (match := _BRACES.search(text)) is None:
        yield text
        return
    for word in match[1].split(","):
        yield from spread(text[: match.start()] + word + text[match.end() :])


def is_immediate(operand: str) -> bool:
    return operand[0].isdigit() or operand[0] == "-"


def read_forms(path: Path = FORMS) -> Table:
    """Read the forms and values of a file."""
    content = tomllib.loads(path.read_text("utf-8"))
    values = {
        name: tuple(int(word, 16) for word in text.split())
        for name, text in content["values"].items()
    }
    table = Table(values)
    for row in content.get("float", []) + content.get("integer", []):
        results, _, sources = row["operands"].partition("=")
        count = len((results + sources).split())
        registers = ", ".join(f"${k}" for k in range(count))
        domain = row.get("domain")
        for opcode in itertools.chain.from_iterable(spread(f) for f in row["forms"]):
            table.forms.append(
                Form(
                    opcode,
                    tuple(results.split()),
                    tuple(sources.split()),
                    row.get("ptx", f"$op {registers};"),
                    row.get("sm", LOWEST_SM),
                    None if domain is None else (domain[0], domain[1]),
                )
            )
    return table


# -- kernels ---------------------------------------------------------------------------------------


def width_of(operand: str) -> int:
    """Bits of an operand's register."""
    kind = operand.partition(":")[0]
    width = 64 if kind == "f32x2" else WIDTHS[kind]
    return max(width, 16) if width > 1 else 1


def kernel(form: Form, sm: int) -> str:
    """A PTX module whose kernel runs a form: words in, one a source; a word out."""
    operands = [*form.results, *form.sources]
    names = [
        operand if is_immediate(operand) else f"{FILES[width_of(operand)]}{k + 10}"
        for k, operand in enumerate(operands)
    ]
    loads: list[str] = []
    sources = [n for n, o in enumerate(operands) if n >= len(form.results) and not is_immediate(o)]
    for place, n in enumerate(sources):
        width = width_of(operands[n])
        loads.append(f"ld.global.b64 %x7, [%x2+{8 * place}];")
        if width == 1:
            loads.append(f"setp.ne.b64 {names[n]}, %x7, 0;")
        else:
            loads.append(f"cvt.u{width}.u64 {names[n]}, %x7;")
    statements = re.sub(r"\$(\d+)", lambda m: names[int(m[1])], form.statements)
    statements = statements.replace("$op", form.opcode)
    width = width_of(operands[0])
    widened = f"cvt.u64.u{width} %x4, {names[0]};"
    if width == 1:
        widened = f"selp.b64 %x4, 1, 0, {names[0]};"
    lines = [
        f".version {ISA_VERSIONS.get(sm, '8.8')}",
        f".target sm_{sm}a",
        ".address_size 64",
        ".visible .entry edge(.param .b64 a, .param .b64 b, .param .b32 n)",
        "{",
        ".reg .pred %p<40>;",
        ".reg .b16 %h<40>;",
        ".reg .b32 %r<40>;",
        ".reg .b64 %d<40>;",
        ".reg .b64 %x<9>;",
        ".reg .b32 %y<9>;",
        ".reg .pred %q;",
        "ld.param.b64 %x0, [a];",
        "ld.param.b64 %x1, [b];",
        "ld.param.b32 %y3, [n];",
        "mov.u32 %y0, %tid.x;",
        "mov.u32 %y1, %ctaid.x;",
        f"mad.lo.u32 %y0, %y1, {BLOCK}, %y0;",
        "setp.ge.u32 %q, %y0, %y3;",
        "@%q ret;",
        f"mad.wide.u32 %x2, %y0, {8 * max(len(sources), 1)}, %x0;",
        "mad.wide.u32 %x3, %y0, 8, %x1;",
        *loads,
        statements,
        widened,
        "st.global.b64 [%x3], %x4;",
        "ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def cases(form: Form, table: Table) -> Array:
    """Every combination of the sources' values, a row each."""
    lists = [table.of(s) for s in form.sources if not is_immediate(s)]
    return np.array(list(itertools.product(*lists)), np.uint64).reshape(-1, max(len(lists), 1))


def run_here(text: str, words: Array) -> Array:
    """The results of ptxview's own execution. Raises CannotRun."""
    memory, results = Memory(), np.zeros(len(words), np.uint64)
    arguments: list[Argument] = [memory.add("a", words), memory.add("b", results), len(words)]
    grid = (-(-len(words) // BLOCK),)
    execute(Program(text, "edge"), grid, (BLOCK,), arguments, memory=memory)
    return results


class Gpu:
    """The GPU of torch's context, by the CUDA driver."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.zeros(1, device="cuda")
        major, minor = torch.cuda.get_device_capability()
        self.sm = 10 * major + minor

    def load(self, text: str) -> ctypes.c_void_p:
        """A module of a PTX text. Raises RuntimeError with the driver's message."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        names = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        settings = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        status = self.driver.cuModuleLoadDataEx(
            ctypes.byref(module), text.encode(), 2, names, settings
        )
        if status:
            message = log.value.decode("utf-8", "replace").strip().replace("\n", " ")
            raise RuntimeError(f"the driver refuses it ({status}): {message}")
        return module

    def run(self, text: str, words: Array) -> Array:
        """The results of a kernel on the GPU. Raises RuntimeError."""
        module = self.load(text)
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, b"edge")
        given = self.torch.from_numpy(words.view(np.int64)).cuda()
        results = self.torch.zeros(len(words), dtype=self.torch.int64, device="cuda")
        self.torch.cuda.synchronize()
        arguments: list[Any] = [
            ctypes.c_uint64(given.data_ptr()),
            ctypes.c_uint64(results.data_ptr()),
            ctypes.c_uint32(len(words)),
        ]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(a) for a in arguments))
        blocks = -(-len(words) // BLOCK)
        self._call("cuLaunchKernel", function, blocks, 1, 1, BLOCK, 1, 1, 0, None, pointers, None)
        self._call("cuCtxSynchronize")
        self._call("cuModuleUnload", module)
        out: Array = results.cpu().numpy().view(np.uint64)
        return out

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.driver, name)(*arguments):
            raise RuntimeError(f"{name} returned {status}")


# -- comparison ------------------------------------------------------------------------------------


def as_floats(bits: Array, kind: str) -> Array:
    """Numbers of a type by their bits, in double precision; of a packed type along a last axis."""
    width = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}[kind.removesuffix("x2")]
    count = 2 if kind.endswith("x2") else 1
    unsigned = {64: np.uint64, 32: np.uint32, 16: np.uint16}[width]
    parts = np.stack([(bits >> np.uint64(width * k)).astype(unsigned) for k in range(count)], -1)
    if kind.startswith("bf16"):
        return (parts.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    real = {64: np.float64, 32: np.float32, 16: np.float16}[width]
    with np.errstate(invalid="ignore"):  # signalling NaN
        return parts.view(real).astype(np.float64)


MANTISSA_BITS = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
LEAST_EXPONENT = {"f64": -1022, "f32": -126, "f16": -14, "bf16": -126}


def bound_of(form: Form, bounds: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How far a form may be off; None of one that may not."""
    double = form.results[0] == "f64"
    bound: Mapping[str, Any] | None = bounds.get(
        ".".join(p for p in form.opcode.split(".") if p != "ftz" or double)
    )
    return bound


def is_near(form: Form, bound: Mapping[str, Any], ours: Array, theirs: Array) -> Array:
    """Which results an approximation's bound allows; infinities, NaN and −0 must be equal.

    Within an absolute bound a number may have the other sign, or be 0.
    """
    kind = form.results[0]
    half = kind.removesuffix("x2")
    a, b = as_floats(ours, kind), as_floats(theirs, kind)
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
        exponent = np.maximum(
            np.frexp(np.maximum(np.abs(a), np.abs(b)))[1] - 1, LEAST_EXPONENT[half]
        )
        unit = np.ldexp(1.0, exponent - MANTISSA_BITS[half])
        allowed = unit * (bound.get("ulps", 0) + 1)
        if "relative" in bound:
            allowed = np.maximum(allowed, np.abs(a) * 2.0 ** bound["relative"] + unit)
        if "absolute" in bound:
            allowed = np.maximum(allowed, 2.0 ** bound["absolute"] + 2.0**-22 * np.abs(a))
        across_zero = (distance > 0) if "absolute" in bound else np.False_
        near = (distance <= allowed) & (across_zero | (np.signbit(a) == np.signbit(b)))
    exact = as_floats(ours, kind).view(np.uint64) == as_floats(theirs, kind).view(np.uint64)
    allowed_rows: Array = (near | exact).all(-1)
    return allowed_rows


def compare(
    form: Form, words: Array, ours: Array, theirs: Array, bounds: Mapping[str, Any]
) -> Outcome:
    """Which results differ, and which of these the ISA does not allow to."""
    different = ours != theirs
    forbidden = different.copy()
    if (bound := bound_of(form, bounds)) is not None:
        if any(key in bound for key in ("ulps", "relative", "absolute")):
            forbidden &= ~is_near(form, bound, ours, theirs)
        else:  # the ISA gives no bound
            forbidden &= ~is_near(form, {"relative": -18.0}, ours, theirs)
        if form.domain is not None:
            size = np.abs(as_floats(words[:, -1], form.sources[-1])[:, 0])
            finite = np.isfinite(size) & (size > 0)
            forbidden &= ~(finite & ((size < form.domain[0]) | (size > form.domain[1])))
    return Outcome(np.nonzero(different)[0], np.nonzero(forbidden)[0])


def shown(form: Form, words: Array, ours: Array, theirs: Array | None, row: int) -> str:
    """One case in hexadecimal: the operands, and the results."""
    sources = [s for s in form.sources if not is_immediate(s)]
    given = [
        f"{int(w):0{width_of(s) // 4 or 1}x}" for w, s in zip(words[row], sources, strict=False)
    ]
    digits = width_of(form.results[0]) // 4 or 1
    text = f"{' '.join(given)} → {int(ours[row]):0{digits}x}"
    return text if theirs is None else f"{text} here, {int(theirs[row]):0{digits}x} on the GPU"


def digest(results: Array) -> str:
    return hashlib.sha256(results.tobytes()).hexdigest()[:16]


def print_results(table: Table, chosen: Sequence[Form]) -> int:
    """Print each form's results here; 1 where one cannot be run."""
    status = 0
    for form in chosen:
        words = cases(form, table)
        try:
            ours = run_here(kernel(form, max(form.sm, LOWEST_SM)), words)
        except CannotRun as error:
            print(f"{form.name:48} cannot be run: {error.obstacles[0]}")
            status = 1
            continue
        example = shown(form, words, ours, None, len(words) // 2)
        print(f"{form.name:48} {len(words):7,} {digest(ours)} {example}")
    return status


def run_forms(table: Table, chosen: Sequence[Form], out: Path | None) -> int:
    """Run forms on the GPU and here, and print a row each."""
    gpu = Gpu()
    bounds = tomllib.loads(BOUNDS.read_text("utf-8"))
    digests: list[str] = []
    listing: list[str] = []
    skipped: list[str] = []
    count = 0
    failures = 0
    print(f"{'form':48} {'cases':>7} {'differ':>7} {'wrong':>7}  first difference")
    for form in chosen:
        if gpu.sm < form.sm:
            skipped.append(form.name)
            continue
        words = cases(form, table)
        text = kernel(form, gpu.sm)
        try:
            theirs = gpu.run(text, words)
            ours = run_here(text, words)
        except (RuntimeError, CannotRun) as error:
            message = error.obstacles[0] if isinstance(error, CannotRun) else error
            print(f"{form.name:48} not compared: {message}")
            failures += 1
            continue
        outcome = compare(form, words, ours, theirs, bounds)
        failures += bool(len(outcome.forbidden))
        count += 1
        if bound_of(form, bounds) is None:
            digests.append(f"{form.opcode} {len(form.sources)} {digest(words)} {digest(theirs)}")
        rows = outcome.forbidden if len(outcome.forbidden) else outcome.different
        first = shown(form, words, ours, theirs, rows[0]) if len(rows) else ""
        counts = f"{len(words):7,} {len(outcome.different):7,} {len(outcome.forbidden):7,}"
        print(f"{form.name:48} {counts}  {first}", flush=True)
        listing += [
            f"{form.name}: {shown(form, words, ours, theirs, row)}"
            for row in rows[:DIFFERENCES_SHOWN]
        ]
    print(f"{count} forms compared, {failures} wrong or not compared")
    if skipped:
        print(f"skipped on sm_{gpu.sm}: {', '.join(skipped)}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "edge_digests.txt").write_text("\n".join(digests) + "\n", "utf-8")
        (out / "edge_differences.txt").write_text("\n".join(listing) + "\n", "utf-8")
    return 1 if failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only forms that have a word")
    parser.add_argument("--print", action="store_true", help="print our results without a GPU")
    parser.add_argument("--out", type=Path, help="folder for differences and digests")
    options = parser.parse_args(arguments)
    table = read_forms()
    chosen = [f for f in table.forms if all(word in f.opcode for word in options.words)]
    if options.print:
        return print_results(table, chosen)
    return run_forms(table, chosen, options.out)


if __name__ == "__main__":
    sys.exit(main())
