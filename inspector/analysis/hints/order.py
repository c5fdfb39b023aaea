"""Instructions that cost more than need be: waits and barriers in loops, calls, fp64, division."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence

from inspector.analysis.accesses import OpcodeLines, base_of
from inspector.analysis.flow.graph import Flow
from inspector.analysis.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    advice,
    number,
    numbers,
)
from inspector.analysis.tensors import blocked, operand_shape, uses
from inspector.base.grouping import by_key
from inspector.base.model import Stage
from inspector.base.names import base_name, words
from inspector.base.units import plural, some
from inspector.parsers.line import Line
from inspector.parsers.sass_operands import access_bytes

WAIT = "early-wait"
BARRIER = "barrier-in-loop"
CALL = "uninlined-call"


def _bodies(flow: Flow, code: OpcodeLines) -> list[list[Line]]:
    """The instructions of each innermost loop."""
    inside: dict[int, list[Line]] = defaultdict(list)
    for line in code.lines():
        loop = flow.loop_at(line.n)
        if loop is not None:
            inside[loop.header].append(line)
    outer = {a.header for a in flow.loops for b in flow.loops if set(b.blocks) < set(a.blocks)}
    innermost = inside.keys() - outer
    return [inside[loop.header] for loop in flow.loops if loop.header in innermost]


def early_wait(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Loops in which no more than a few bytes a thread are ever on their way from memory.

    Read off the wait masks. A kernel with one loop that keeps more in flight is left alone (the
    others are what is left over by unrolling), and so are loads whose address was itself loaded.
    """
    early_waits = _early_waits(subject, thresholds)
    if not early_waits:
        return
    early, waiting, distances = zip(*early_waits, strict=True)
    distance = min(distances)
    soon = "the next instruction" if distance == 1 else f"{distance} instructions later"
    yield Finding(
        WAIT,
        "hint",
        f"{plural(len(set(early)), 'load')} in a loop waited for at once ({soon}), with nothing "
        "else on its way: each turn takes the whole latency of memory, hundreds of cycles, which "
        f"only other warps can hide. {advice(subject, thresholds, WAIT)}",
        {Stage.SASS: numbers((*early, *waiting))},
    )


def _early_waits(subject: HintSubject, thresholds: Thresholds) -> list[tuple[Line, Line, int]]:
    """Loads in loops, who waits for them soon, and how far on; none where a loop is left alone."""
    flow = subject.flow(Stage.SASS)
    code = subject.code(Stage.SASS)
    if flow is None or code is None or not any(line.control for line in subject.sass):
        return []
    enough = number(thresholds, WAIT, "bytes")
    near = number(thresholds, WAIT, "instructions")
    most_loads = number(thresholds, WAIT, "loads")
    early_waits: list[tuple[Line, Line, int]] = []
    for lines in _bodies(flow, code):
        loads = sum(1 for line in lines if line.base == "LDG")
        if not loads:
            continue
        bytes_in_flight, waits = _in_flight(lines)
        if bytes_in_flight >= enough or loads > most_loads or _chased(lines):
            return []
        early_waits += [wait for wait in waits if wait[2] <= near]
    return early_waits


def _in_flight(lines: Sequence[Line]) -> tuple[int, list[tuple[Line, Line, int]]]:
    """The most bytes a thread has on their way at a wait; loads, who waits, and how far on."""
    pending: dict[int, list[tuple[int, Line]]] = defaultdict(list)
    largest = 0
    waits: list[tuple[Line, Line, int]] = []
    for index, line in enumerate(lines):
        control = line.control
        if control is None:
            continue
        on_way = sum(
            access_bytes(load.opcode or "") for loads in pending.values() for _, load in loads
        )
        for barrier in range(6):
            if control.wait >> barrier & 1 and pending.get(barrier):
                largest = max(largest, on_way)
                waits += [(load, line, index - issued) for issued, load in pending.pop(barrier)]
        if line.base == "LDG" and control.write_barrier is not None:
            pending[control.write_barrier].append((index, line))
    if any(pending.values()):  # waited for in the next turn: it was loaded ahead
        return 1 << 20, []
    return largest, waits


def _chased(lines: Sequence[Line]) -> bool:
    """Whether a load's address depends on what a load of the loop brought, this turn or before."""
    loaded: set[str] = set()
    for _ in range(2):
        for line in lines:
            uses = not loaded.isdisjoint(line.uses)
            if line.base == "LDG" and uses:
                return True
            if line.base == "LDG":
                loaded.update(line.defs)
            elif uses:
                loaded.update(name for name in line.defs if name.lstrip("U")[:1] != "P")
            else:
                loaded.difference_update(line.defs)
    return False


# -- barrier-in-loop ------------------------------------------------------------------------------

_BARRIERS = re.compile(r"(?:bar|barrier)(?:\.cta)?\.(?:sync|red)\b")
_PIPELINED = re.compile(r"(?:wgmma|mma|wmma|tcgen05|cp|ldmatrix|mbarrier)\.")


def barrier_in_loop(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Barriers with next to no work between them, and reductions that could be left for later.

    Loops that feed the tensor cores or copy asynchronously need their barriers, and so do tiles in
    shared memory: those have more work than that between them.
    """
    flow = subject.flow(Stage.PTX)
    code = subject.code(Stage.PTX)
    if flow is None or code is None or not code.count(_BARRIERS.match):
        return
    bars: list[Line] = []
    crowded: list[Line] = []
    work = 0
    least_work = number(thresholds, BARRIER, "instructions")
    for lines in _bodies(flow, code):
        barriers = [line for line in lines if _BARRIERS.match(line.opcode or "")]
        if not barriers or any(_PIPELINED.match(line.opcode or "") for line in lines):
            continue
        bars += barriers
        instructions_each = len(lines) / len(barriers)
        if instructions_each <= least_work:
            crowded += barriers
            work = max(work, round(instructions_each))
    sums = _accumulated(subject.ttgir) if bars else []
    if sums:
        yield _deferrable(sums, bars)
    elif crowded and not subject.by_triton:
        yield Finding(
            BARRIER,
            "hint",
            f"{plural(len(crowded), 'barrier')} in a loop with about {work} instructions of PTX "
            "for each: all warps of the block wait for the slowest, turn after turn, for very "
            "little work. Do the last steps within a warp by shuffles (__shfl_xor_sync, "
            "__reduce_add_sync), which need no barrier, or let each thread do more before it.",
            {Stage.PTX: numbers(crowded)},
        )


def _deferrable(sums: Sequence[Line], bars: Sequence[Line]) -> Finding:
    """Reductions whose results a loop only adds up."""
    return Finding(
        BARRIER,
        "hint",
        f"{plural(len(sums), 'reduction')} over all warps in every turn of a loop, with "
        f"{plural(len(bars), 'barrier')}, only to be added up: all warps wait for the "
        "slowest, turn after turn. Keep a block of partial results, add to it elementwise, and "
        "reduce it once after the loop.",
        {Stage.TTGIR: numbers(sums), Stage.PTX: numbers(bars)},
    )


_COMBINE = words(
    "arith.addf arith.addi arith.maxnumf arith.minnumf arith.maximumf arith.minimumf arith.maxsi "
    "arith.minsi arith.maxui arith.minui arith.mulf"
)


def _accumulated(lines: Sequence[Line]) -> list[Line]:
    """Reductions in an ``scf.for`` whose result is combined with what the loop carries."""
    out: list[Line] = []
    carried: set[str] = set()
    reduced: dict[str, Line] = {}
    depth = 0
    for line in lines:
        if line.base == "scf.for":
            depth += 1
            carried.update(re.findall(r"(%[\w$.\-]+) = %", line.text.partition("iter_args(")[2]))
        elif line.base == "scf.yield":
            depth = max(depth - 1, 0)
        elif line.base == "tt.reduce" and depth:
            reduced.update((name, line) for name in line.defs)
        elif line.base in _COMBINE and depth:
            names = uses(line)
            if len(names) == 2 and not carried.isdisjoint(names):
                out += [reduced[name] for name in names if name in reduced]
    return out


# -- uninlined-call -------------------------------------------------------------------------------

_SYSTEM = frozenset(("__assertfail", "__trap"))
_HEAVY = frozenset(("vprintf", "malloc", "free"))
_OPTIX = "_optix_"
"""What OptiX's device functions begin with: its compiler, in the driver, inlines them."""
_CALLEE = re.compile(r"\$(_Z\w+|\w+)\)")


def uninlined_call(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Calls of functions that were not inlined: of the program's, and printf, malloc and free.

    A failing assertion and the assembler's own subroutines (divisions) are left alone, and so are
    calls in PTX that the assembler inlined after all, and OptiX's own functions.
    """
    calls = subject.instructions(Stage.SASS, "CALL")
    sass_calls = [line for line in calls if "__internal_" not in line.text]
    if subject.sass and not sass_calls:
        return
    ptx_calls = subject.instructions(Stage.PTX, "call")
    if subject.ptx:
        ptx_calls = tuple(line for line in ptx_calls if _inlinable(_target(line)))
        names = [_target(line) for line in ptx_calls]
    else:
        names = [name for name in map(_callee, sass_calls) if _inlinable(name)]
    if not names:
        return
    heavy = all(name in _HEAVY for name in names)
    cure = "Leave it out of kernels that are measured."
    if not heavy:
        cure = advice(subject, thresholds, CALL)
    called = dict.fromkeys(_called_name(name) for name in names)
    yield Finding(
        CALL,
        "info" if heavy else "hint",
        f"{plural(len(names), 'call')} of {some(list(called))}, not inlined: registers are saved "
        "around it and arguments handed over by convention, and nothing is optimised across it. "
        f"{cure}",
        {Stage.PTX: numbers(ptx_calls), Stage.SASS: numbers(sass_calls)},
    )


def _called_name(name: str) -> str:
    return base_name(name) if name else "a function chosen at run time"


def _target(line: Line) -> str:
    """The function that a call in PTX names, "" if it names none."""
    return line.targets[0] if line.targets else ""


def _callee(line: Line) -> str:
    """The function that a call in SASS names, "" if it names none."""
    match = _CALLEE.search(line.text)
    return match[1] if match else ""


def _inlinable(name: str) -> bool:
    return name not in _SYSTEM and not name.startswith(_OPTIX)


# Integers by what is not constant, exact fp32, fp64.

SLOW_DIVISION = "slow-division"

_BY_REGISTER = re.compile(r",\s*+%[\w$]++\s*+;")
_DIVISION = re.compile(r"(?:div|rem)\.(?:r[nzmp]\.)?(?:ftz\.)?([suf](?:16|32|64))\Z")


def slow_division(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Divisions that are a good part of a loop, or of a kernel that has none.

    There is no instruction for them: each becomes a reciprocal and its corrections. What stands
    before a kernel's loops is run once and is left alone; so are ``div.full`` and ``div.approx``,
    and divisors that are constants.
    """
    code = subject.code(Stage.PTX)
    flow = subject.flow(Stage.PTX)
    candidates = [line for line in subject.instructions(Stage.PTX, "div", "rem") if _is_slow(line)]
    if code is None or flow is None or not candidates:
        return

    def body(line: Line) -> int:
        """The first line of the innermost loop around a line; 0 outside of loops."""
        inner = flow.loop_at(line.n)
        return inner.first if inner else 0

    sizes = Counter(map(body, code.lines()))
    looped = any(sizes)
    if looped:
        del sizes[0]
    least = number(thresholds, SLOW_DIVISION, "share")
    slow_by_body = by_key((body(line), line) for line in candidates)
    divisions: list[Line] = []
    for first, size in sizes.items():
        slow = slow_by_body.get(first, [])
        if slow and _share(slow, size, thresholds) >= least:
            divisions += slow
    if not divisions:
        return
    opcodes = some(list(dict.fromkeys(f"{line.opcode}" for line in divisions)))
    floats = all(".f" in (line.opcode or "") for line in divisions)
    cure = advice(subject, thresholds, SLOW_DIVISION, "floats" if floats else "integers")
    place = "in a loop" if looped else "in a kernel without loops"
    share = _share(divisions, sizes.total(), thresholds)
    yield Finding(
        SLOW_DIVISION,
        "hint",
        f"{plural(len(divisions), 'division')} {place} ({opcodes}), about {share:.0%} of its "
        "instructions (an estimate): the hardware has no such instruction, so each is a "
        f"reciprocal and its corrections. {cure}",
        {Stage.PTX: numbers(divisions)},
    )


def _is_slow(line: Line) -> bool:
    """Whether a division has no instruction, and its divisor is no constant."""
    exact = _DIVISION.match(line.opcode or "")
    return exact is not None and _BY_REGISTER.search(line.text) is not None


def _share(slow: list[Line], lines: int, thresholds: Thresholds) -> float:
    instruction_counts = thresholds[SLOW_DIVISION].get("instructions", {})
    kinds = (_DIVISION.match(line.opcode or "") for line in slow)
    spent = sum(float(instruction_counts.get(kind[1], 1)) for kind in kinds if kind)
    return spent / max(spent + lines - len(slow), 1)


# Products of matrices that do not run on the tensor cores.

NO_TENSOR_CORES = "no-tensor-cores"

_PARENT = re.compile(r"#ttg\.dot_op<\{opIdx = 0, parent = (#[\w$]+)")
_ELEMENT = re.compile(r"tensor<(?:\d+x)+(\w+)")


def no_tensor_cores(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """``tl.dot`` in a layout of plain threads: it becomes multiply-adds, one an element. fp64 is
    left alone, and so are products too small for an instruction of the tensor cores."""
    least = number(thresholds, NO_TENSOR_CORES, "rows")
    listing = subject.listings.get(Stage.TTGIR)
    dots = [line for line in subject.ttgir if line.base == "tt.dot"]
    if listing is None or not dots:
        return
    layouts = blocked(listing.lines)
    elements = {line.n: _plain_product(line, layouts, least) for line in dots}
    bad = [line for line in dots if elements[line.n]]
    if not bad:
        return
    fused = len(subject.instructions(Stage.SASS, "FFMA"))
    became = f" became {plural(fused, 'FFMA instruction')}" if fused else " are multiply-adds"
    kinds = sorted({element for element in elements.values() if element})
    yield Finding(
        NO_TENSOR_CORES,
        "warn",
        f"{plural(len(bad), 'product')} of {' and '.join(kinds)} tiles{became} and no instruction "
        'of the tensor cores, which are many times faster: input_precision="ieee" asks for all 24 '
        'bits of fp32, and the tensor cores round to tf32. Use input_precision="tf32", or "tf32x3" '
        "for nearly fp32's accuracy, or give tl.dot fp16 or bf16.",
        {Stage.TTGIR: numbers(bad)},
    )


def _plain_product(line: Line, layouts: Container[str], least_rows: float) -> str | None:
    """The type of the elements of a product in a layout of plain threads; None of others."""
    parent = _PARENT.search(line.text)
    element = _ELEMENT.search(line.text)
    shape = operand_shape(line)
    if parent is None or parent[1] not in layouts or element is None or shape is None:
        return None
    if element[1] == "f64" or min(shape[-2:]) < least_rows:
        return None
    return element[1]


PROMOTION = "fp64-promotion"

_WIDENED = re.compile(r"cvt\.f64\.(?:f32|f16|bf16)\b")
_NARROWED = re.compile(r"cvt\.r[nzmp]i?\.(?:\w+\.)*(?:f32|f16|bf16)\.f64\b")
_ARITHMETIC = words("add sub mul fma mad div rcp sqrt rsqrt neg abs min max")
_CONSTANT = re.compile(r"\b0[dD](?!0{16})[0-9A-Fa-f]{16}\b")
_TTGIR_DOUBLES = re.compile(r"!tt\.ptr<f64>|tensordesc<[^>]*f64")


def fp64_promotion(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Floats widened to double, computed with double constants, and narrowed again.

    A kernel that loads, stores or is passed doubles means them, and so does one whose only
    doubles are sums (no constant but 0): it says nothing of those.
    """
    code = subject.code(Stage.PTX)
    if code is None or _moves_doubles(subject, code) or not _has_double_constant(subject):
        return
    if not code.count(_WIDENED.match) or not code.count(_NARROWED.match):
        return
    double = code.lines(lambda o: o.endswith(".f64") and base_of(o) in _ARITHMETIC)
    if len(double) < number(thresholds, PROMOTION, "instructions"):
        return
    target = (subject.variant.target or "").rstrip("af")
    rate = thresholds[PROMOTION].get("rate", {}).get(target)
    widened = code.lines(lambda o: _WIDENED.match(o) or _NARROWED.match(o))
    floats = code.count(lambda o: o.endswith((".f32", ".f32x2")) and base_of(o) in _ARITHMETIC)
    slower = f", which {target} runs at 1/{rate} of the rate of fp32" if rate else ""
    yield Finding(
        PROMOTION,
        "warn",
        f"{plural(len(double), 'fp64 instruction')} against {floats} in fp32, though "
        f"everything that is loaded and stored is narrower: values are widened to double here"
        f"{slower}, and a double takes two registers. {advice(subject, thresholds, PROMOTION)}",
        {Stage.PTX: numbers([*widened, *double])},
    )


def _moves_doubles(subject: HintSubject, code: OpcodeLines) -> bool:
    """Whether a kernel is passed doubles, or loads or stores them."""
    for line in subject.lines(Stage.TTGIR):
        if line.base == "tt.func" and _TTGIR_DOUBLES.search(line.text):
            return True
    moves = ("ld.", "st.", "atom.", "red.")
    if code.count(lambda opcode: opcode.endswith("f64") and opcode.startswith(moves)):
        return True
    declarations = (line.text for line in subject.lines(Stage.PTX) if not line.opcode)
    return any(".param" in text and ".f64" in text for text in declarations)


def _has_double_constant(subject: HintSubject) -> bool:
    texts = (line.text for line in subject.lines(Stage.PTX) if line.opcode)
    return any(_CONSTANT.search(text) for text in texts)
