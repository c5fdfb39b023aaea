"""A launch: every thread block, or some of them, a chunk at a time.

Of a chunk, the lanes in the earliest basic block run first, in an order in which a loop's blocks
are before what follows the loop; so lanes that parted meet again where their ways do. Lanes that go
round a loop which may wait for what others store let the others go first.

One module because a launch goes on with chunks that wait for each other.
"""

import math
import re
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from inspector.base.budget import Budget
from inspector.base.errors import PtxviewError
from inspector.execute import lanes
from inspector.execute.barriers import Barriers, FailedTest, Phases, Release
from inspector.execute.blocks import BasicBlock, is_waiting
from inspector.execute.bulk import BulkCopies
from inspector.execute.faults import Fault, LaunchError, Malformed, OutOfBudget, Place
from inspector.execute.kinds import Array, Mask, i64, u32, u64
from inspector.execute.lanes import Lanes, Triple, coordinates
from inspector.execute.memory import (
    AsynchronousAccess,
    ChunkMemory,
    Memory,
    Observer,
    Ordering,
    OrderObserver,
)
from inspector.execute.program import Argument, Program
from inspector.execute.tensor_memory import BYTES, TensorMemory
from inspector.execute.waits import ArrivalObserver, Deadlock, deadlock_fault
from inspector.parsers.ptx_statement import PtxInstruction

MAX_TEXT_CHARS = 4096
"""Characters of a string that are read, and of a field that is printed."""
MAX_PRINTED_LINES = 65_536
MAX_PRINTED_CHARS = 1 << 24
"""Lines and characters that are kept of a launch; a GPU's own buffer holds less: 1 MB."""

_DIRECTIVE = re.compile(
    r"%([-+ #0]*+(?:\*|\d++)?+(?:\.(?:\*|\d*+))?)(hh|h|ll|l|L|z|t|j)?([diouxXeEfFgGaAcsp%])"
)
_LONG = ("l", "ll", "z", "t", "j")


def formatted(form: str, data: bytes, string_at: Callable[[int], str]) -> str:
    """``printf`` of a format and its arguments, as ``vprintf`` is given them on a GPU.

    A field has at most ``MAX_TEXT_CHARS``, however wide the format makes it. Arguments stand one
    after another, each at a multiple of its size: 8 bytes of doubles, pointers
    and long integers, 4 of the others. ``string_at`` gives the string at an address.
    """
    offset = 0

    def take(kind: str) -> Any:
        nonlocal offset
        size = struct.calcsize("<" + kind)
        offset = -(-offset // size) * size + size
        return struct.unpack("<" + kind, data[offset - size : offset].ljust(size, b"\0"))[0]

    def shown(specifier: re.Match[str]) -> str:
        layout, length, letter = specifier.groups()
        if letter == "%":
            return "%"
        stars = [take("i") for _ in range(layout.count("*"))]
        stars = [max(-MAX_TEXT_CHARS, min(n, MAX_TEXT_CHARS)) for n in stars]
        layout = re.sub(r"\d+", lambda number: str(min(int(number[0][:9]), MAX_TEXT_CHARS)), layout)
        kinds = "Qqd" if length in _LONG or letter in "sp" else "Iid"
        if letter in "di":
            value = take(kinds[1])
        elif letter in "eEfFgGaA":
            value = take(kinds[2])
        else:
            value = take(kinds[0])
        if letter == "s":
            value = string_at(value)
        elif letter == "c":
            value = chr(value & 255)
        elif letter in "paA":
            value = hex(value) if letter == "p" else value.hex()
            letter = "s"
        return f"%{layout}{letter}" % (*stars, value)

    return _DIRECTIVE.sub(shown, form)


MIN_LANES_COST = 512
"""Minimum lanes that an instruction costs: numpy's price of a call."""


class Work:
    """How much a launch has done, in lane-instructions, what it may cost, and what it printed.

    ``seconds`` are those of the clock that it may take from now on.
    """

    def __init__(self, kernel: str, budget: int | None, seconds: float | None) -> None:
        self.kernel = kernel
        self.budget = budget
        self.seconds = seconds
        self.done = self.cost = 0
        self.end = math.inf if seconds is None else time.monotonic() + seconds
        self.printed: list[str] = []
        """What lanes printed, in their order."""
        self.keeps = True
        """Whether what lanes print is still kept."""
        self._characters = Budget(MAX_PRINTED_CHARS)

    def pay(self, cost: int) -> None:
        """Raises OutOfBudget."""
        self.cost += cost
        if self.budget is not None and self.cost > self.budget:
            raise OutOfBudget(self.kernel, self.budget)
        if self.seconds is not None and time.monotonic() > self.end:
            raise OutOfBudget(self.kernel, self.done, self.seconds)

    def print(self, text: str) -> None:
        """Keep what a lane printed, or say once that no more is kept."""
        self.keeps = len(self.printed) < MAX_PRINTED_LINES and self._characters.take(len(text))
        notice = f"(the printf of {self.kernel} goes on; no more of it is kept)\n"
        self.printed.append(text if self.keeps else notice)


class Messages:
    """What the lanes of a chunk print, and the assertions that fail."""

    def __init__(self, memory: ChunkMemory, work: Work) -> None:
        self.memory = memory
        self.lanes = memory.lanes
        self.work = work

    def print(self, n: int, form: Array, arguments: Array, mask: Mask) -> None:
        """``vprintf``: ``form`` and ``arguments`` are where its two parameters stand."""
        forms, lists = (self._parameter(n, x, u64, mask) for x in (form, arguments))
        for lane in zip(*np.nonzero(self.lanes.full_mask(mask)), strict=True):
            if not self.work.keeps:
                return
            size = self.memory.local_size
            offset = int(lists[lane]) & ((1 << 56) - 1)
            first = (int(lane[0]) * self.lanes.width + int(lane[1])) * size
            data = self.memory.local[first : first + size][offset : offset + 1024].tobytes()
            self.work.print(formatted(self._string(int(forms[lane])), data, self._string))

    def _parameter(self, n: int, address: Array, dtype: type, mask: Mask) -> Array:
        return self.lanes.full(self.memory.fetch(n, "local", address, dtype, mask))

    def _string(self, address: int) -> str:
        """The string at an address of global memory, up to its end."""
        if (region := self.memory.memory.region_at(address)) is None:
            return "(null)"
        data = region.data[address - region.base :][:MAX_TEXT_CHARS].tobytes()
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def failed(self, n: int, operands: list[Array], mask: Mask) -> None:
        """``__assertfail``: of expression, file, line and function, given where they stand."""
        keep = self.lanes.full_mask(mask)
        if not keep.any():
            return
        lane = self.lanes.first(keep)
        expression, file = (self._parameter(n, operands[k], u64, mask)[lane] for k in (0, 1))
        line = self._parameter(n, operands[2], u32, mask)[lane]
        assertion = f"{self._string(int(expression))!r} of {self._string(int(file))}, line {line}"
        raise self.memory.fault("assertion", f"the assertion {assertion}, failed", n, lane)


_VERBS = {"ld": "loads", "ldu": "loads", "st": "stores", "atom": "changes", "red": "changes"}

Snapshot = dict[int, tuple[Array, dict[int, Array]]]
"""Lanes that go round a loop, by its block: which, and the registers that live there."""


class Machine:
    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        memory: Memory,
        parameters: Array,
        *,
        dynamic: int,
        addresses: list[int],
        work: Work,
        observers: Sequence[Observer],
        warp_order: Sequence[int] = (),
    ) -> None:
        self.program = program
        self.warp_order = warp_order
        self.lanes = lanes
        self.work = work
        self.observers = observers
        self.order_observers = [o for o in observers if isinstance(o, OrderObserver)]
        ordering: Ordering = self.tell_order if self.order_observers else None
        self.memory = ChunkMemory(
            lanes,
            memory,
            self.fault,
            shared=program.shared_bytes(dynamic),
            local=program.local_size,
            parameters=parameters,
            watching=partial(self.tell, "access") if observers else None,
            ordering=ordering,
        )
        self.phases = Phases(self.memory)
        self.bulk = BulkCopies(self.memory, self.phases)
        self.tensor = TensorMemory(
            self.memory, self.phases, work.pay, partial(self.tell, "product")
        )
        self.messages = Messages(self.memory, work)
        self.globals = [np.array([[address]], u64) for address in addresses]
        self.barriers = Barriers(lanes, ordering)
        self.blocks = program.blocks.blocks
        self.registers: list[Array] = list(program.empty)
        self.pending: dict[int, Mask] = {0: lanes.live}
        self.polled: dict[int, Mask] = {}
        self.held: dict[int, Mask] = {}
        """Lanes at a block that their warps are to run together, of which others are elsewhere."""
        self.visited = bytearray(len(self.blocks))
        self._seen: tuple[int, Snapshot] | None = None

    def tell(self, event: str, *arguments: Any) -> None:
        """Call a method of each observer."""
        for observer in self.observers:
            getattr(observer, event)(self.lanes, *arguments)

    def tell_order(self, event: str, *arguments: Any) -> None:
        """Call a method of each order observer."""
        for observer in self.order_observers:
            getattr(observer, event)(self.lanes, *arguments)

    def multiply_group(
        self,
        instruction: int,
        mask: Mask,
        shape: tuple[int, int, int],
        kinds: Sequence[str],
        a: Sequence[Array] | Array,
        b: Array,
        *operands: Any,
    ) -> list[Array]:
        """``wgmma.mma_async``; Fault where its descriptor names what is not there."""
        if self.lanes.width % 128:
            sentence = f"a block of {self.lanes.threads} threads has no whole warp group of 128"
            raise self.fault("warp group", sentence, instruction)
        products = self.lanes.blocks * (self.lanes.width // 128) * prod(shape)
        self.work.pay(products // lanes.PRODUCTS_A_LANE)
        if mask is not None:
            b = self._of_active(mask, b)
            a = self._of_active(mask, a) if isinstance(a, np.ndarray) else a
        tell = partial(self._tell_tile, instruction, mask) if self.order_observers else None
        try:
            return lanes.multiply_group(
                self.lanes, self.memory.shared, shape, kinds, a, b, *operands, tell_tile=tell
            )
        except IndexError as error:
            raise self.fault("out of bounds", str(error), instruction, space="shared") from None

    def _tell_tile(self, instruction: int, mask: Mask, address: Array, nbytes: int) -> None:
        """Tell the order observers what each warp's ``wgmma`` reads of shared memory.

        ``address`` has an array a warp.
        """
        active = self.lanes.mask_warps(mask).any(2)
        by_warp = address.reshape(*active.shape, -1)
        for row, warp in np.argwhere(active).tolist():
            tile = by_warp[row, warp]
            access = AsynchronousAccess(instruction, "load", row, warp, row, tile, nbytes)
            self.tell_order("asynchronous", access)

    def _of_active(self, mask: Array, descriptor: Array) -> Array:
        """A descriptor in every lane: in those that do not run it means nothing."""
        full = self.lanes.full(descriptor)
        on = self.lanes.full_mask(mask)
        some = full[on]
        return np.where(on, full, some[0]) if some.size else full

    def fault(
        self,
        cause: str,
        sentence: str,
        instruction: int,
        lane: tuple[int, int] | None = None,
        **details: Any,
    ) -> Fault:
        """A fault at an instruction, of the lane in a row and column of the chunk."""
        row = self.program.code.instructions[instruction]
        place = Place(
            self.program.name,
            row.line,
            self.program.statement(row.line),
            None
            if lane is None
            else coordinates(int(self.lanes.numbers[lane[0]]), self.lanes.grid),
            None if lane is None else coordinates(lane[1], self.lanes.block),
        )
        if cause in ("out of bounds", "null", "misaligned") and sentence[:1].isdigit():
            sentence = f"{_VERBS.get(row.base, 'accesses')} {sentence}"
        return Fault(cause, sentence, place, **details)

    def run(self) -> bool:
        """Goes on until all lanes have ended (True) or all that are left spin or wait (False)."""
        self._seen = None
        while True:
            if not self.pending:
                if self.polled:
                    if not self._idle():
                        self.pending = self.polled
                        self.polled = {}
                        continue
                    if not self.held:
                        return False
                if self.held:  # the others do not come: these were all that an instruction names
                    first = min(self.held, key=self._rank)
                    self._try_step(self.blocks[first], self.held.pop(first))
                    continue
                if self.barriers.waiting:
                    raise self.deadlock()
                return True
            block, mask = self._next()
            if block.gathers:
                mask = self._gathered(block, mask)
            if mask is None or mask.any():
                self._try_step(block, mask)

    def _next(self) -> tuple[BasicBlock, Mask]:
        """The block of lowest rank with its lanes; in an order of warps, with those of the first
        warp that can go on."""
        if not self.warp_order:
            first = min(self.pending, key=self._rank)
            return self.blocks[first], self.pending.pop(first)
        present: dict[int, list[bool]] = {
            n: np.asarray(self.lanes.mask_warps(mask).any((0, 2))).tolist()
            for n, mask in self.pending.items()
        }
        warp = next(w for w in self.warp_order if any(warps[w] for warps in present.values()))
        first = min((n for n, warps in present.items() if warps[warp]), key=self._rank)
        others = self.lanes.mask_warps(self.pending.pop(first)).copy()
        own = np.zeros_like(others)
        own[:, warp] = others[:, warp]
        others[:, warp] = False
        if others.any():
            self.pending[first] = others.reshape(self.lanes.shape)
        return self.blocks[first], own.reshape(self.lanes.shape)

    def _gathered(self, block: BasicBlock, mask: Mask) -> Mask:
        """The lanes of a mask whose whole warps are here; the others are held."""
        if block.index in self.held:
            held = {block.index: mask}
            self._merge_lanes(held, block.index, self.held.pop(block.index))
            mask = held[block.index]
        if mask is None:
            return None
        here = self.lanes.mask_warps(mask)
        elsewhere = self.lanes.mask_warps(self.lanes.live) & ~here
        parted: Array = np.asarray(here.any(2) & elsewhere.any(2))
        if not parted.any():
            return mask
        late: Array = (here & parted[:, :, None]).reshape(self.lanes.shape)
        self.held[block.index] = late
        return self.lanes.full_mask(mask) & ~late

    def _try_step(self, block: BasicBlock, mask: Mask) -> None:
        try:
            self._step(block, mask)
        except (PtxviewError, MemoryError):
            raise
        except Exception as error:
            raise self._malformed(error, block) from error

    def _rank(self, block_index: int) -> int:
        return self.blocks[block_index].rank

    def _malformed(self, error: Exception, block: BasicBlock) -> Malformed:
        """The refusal of the statement that raised an error which no earlier check foresaw."""
        number = self.program.instruction_of(error)
        row = self.program.code.instructions[block.last - 1 if number is None else number]
        place = Place(self.program.name, row.line, self.program.statement(row.line))
        return Malformed(place, bool(self.memory.memory.written))

    def _step(self, block: BasicBlock, mask: Mask) -> None:
        lanes = self.lanes.count(mask)
        instructions = block.last - block.first
        self.lanes.ticks += lanes * instructions
        self.work.done += lanes * instructions
        self.work.pay(max(lanes, MIN_LANES_COST) * instructions)
        self.tell("visit", block, mask)
        careful = bool(self.visited[block.index])
        self.visited[block.index] = 1
        code = self.program.function(block, careful=careful, watched=bool(self.observers))
        result = code(self, self.registers, mask)
        end = block.end
        if end is not None and self.observers:
            self.tell("step", block.last - 1, self._guarded(end, mask, result))
        if end is None:
            if block.successors:
                self._go(block, block.successors[0], mask)
            else:
                self._leave(mask)
        elif end.base == "bra":
            self._branch(block, mask, result)
        elif end.base == "brx":
            self._jump(block, mask, result)
        elif is_waiting(end):
            guard, operands = result
            yes, no = _split_mask(mask, guard) if guard is not None else (mask, NOBODY)
            self._go(block, block.successors[0], no)
            if yes is None or yes.any():
                self._go_on(self.barriers.reach(end, operands, yes, block.successors[0]))
        else:
            self._end(block, end, mask, result)
        self._free_registers(block)

    def _jump(self, block: BasicBlock, mask: Mask, indices: Array) -> None:
        """Go on where each lane's place in the table of a ``brx`` leads to."""
        remaining = self.lanes.full_mask(mask)
        for k, target in enumerate(block.successors):
            jumping = remaining & (indices == k)
            self._go(block, target, jumping)
            remaining = remaining & ~jumping
        if remaining.any():
            sentence = "a branch goes beyond its table"
            lane = self.lanes.first(remaining)
            raise self.fault("out of bounds", sentence, block.last - 1, lane)

    def _free_registers(self, block: BasicBlock) -> None:
        """Free the registers that no lane looks at any more after this block."""
        waiting = (*self.pending, *self.polled, *self.held)
        needed = [self.blocks[n].live_in for n in waiting]
        if self.barriers.waiting:
            return
        candidates: Iterable[int] = block.dying
        if len(block.successors) != 1:
            candidates = (*block.dying, *block.live_out)
        for register in candidates:
            if not any(register in live for live in needed):
                self.registers[register] = self.program.empty[register]

    def _guarded(self, end: PtxInstruction, mask: Mask, result: Any) -> Mask:
        guard = result[0] if is_waiting(end) else result
        if end.guard is None or end.base == "brx":
            return mask
        return guard if mask is None else mask & guard

    def _branch(self, block: BasicBlock, mask: Mask, predicate: Array | None) -> None:
        if predicate is None:
            self._go(block, block.successors[0], mask)
            return
        yes, no = _split_mask(mask, predicate)
        self.tell("branched", block.last - 1, yes, no)
        self._go(block, block.successors[0], yes)
        self._go(block, block.successors[1], no)

    def _go_on(self, released: list[Release]) -> None:
        for release in released:
            mask: Mask = None if release.mask.all() else release.mask
            if release.register is not None and release.value is not None:
                old = self.registers[release.register]
                self.registers[release.register] = np.where(
                    release.mask, release.value.astype(old.dtype), old
                )
            self._merge_lanes(self.pending, release.target, mask)

    def _end(self, block: BasicBlock, end: PtxInstruction, mask: Mask, guard: Array | None) -> None:
        gone: Mask = mask
        if guard is not None:
            gone, stay = _split_mask(mask, guard)
            self._go(block, block.successors[0], stay)
        if end.base == "trap" and (gone is None or gone.any()):
            lane = self.lanes.first(self.lanes.full_mask(gone))
            raise self.fault("trap", "the kernel stopped itself with trap", block.last - 1, lane)
        self._leave(gone)

    def _go(self, source: BasicBlock, target: int, mask: Mask) -> None:
        if mask is not None and not mask.any():
            return
        head = self.blocks[target]
        back = head.polls and head.rank <= source.rank
        self._merge_lanes(self.polled if back else self.pending, target, mask)

    @staticmethod
    def _merge_lanes(masks: dict[int, Mask], target: int, mask: Mask) -> None:
        if target in masks:
            earlier = masks[target]
            mask = None if earlier is None or mask is None else earlier | mask
            mask = None if mask is None or mask.all() else mask
        masks[target] = mask

    def _leave(self, mask: Mask) -> None:
        live = self.lanes.full_mask(self.lanes.live)
        self.lanes.live = NOBODY if mask is None else live & ~mask
        self._go_on(self.barriers.release())

    def _idle(self) -> bool:
        """Whether going round changes nothing: no memory, and no register that lives there."""
        if any(self.blocks[n].timed for n in self.polled):
            return False
        now: Snapshot = {}
        for n, mask in self.polled.items():
            registers = {r: self.registers[r] for r in self.blocks[n].live_in}
            now[n] = (self.lanes.full_mask(mask), registers)
        previous = self._seen
        self._seen = (self.memory.changes, now)
        return (
            previous is not None
            and previous[0] == self.memory.changes
            and _same_snapshot(previous[1], now)
        )

    def deadlock(self) -> Fault:
        """The fault of lanes of which none goes on: what they wait for, and what is missing."""
        polled = [
            (self._poll(block_index), self.lanes.full_mask(self.polled[block_index]))
            for block_index in sorted(self.polled, key=self._rank)
        ]
        history = next((o for o in self.observers if isinstance(o, ArrivalObserver)), None)
        deadlock = Deadlock(self.program, self.lanes, self.phases, history)
        waits = deadlock.waits(list(self.barriers.incomplete()), polled, self._failed_tests())
        return deadlock_fault(self.program, waits)

    def _poll(self, block_index: int) -> int:
        """The instruction of a loop that looks whether it may end."""
        block = self.blocks[block_index]
        rows = self.program.code.instructions
        near = range(block.first, min(block.last + 64, len(rows)))
        return next((n for n in near if rows[n].base in ("atom", "ld", "mbarrier")), block.first)

    def _failed_tests(self) -> list[FailedTest]:
        """The mbarriers for which lanes that poll wait: they go round once more, unobserved, which
        changes nothing."""
        self.observers = ()
        self.order_observers = []
        self.phases.failed = []
        self.pending = self.polled
        self.polled = {}
        while self.pending:
            block = self.blocks[min(self.pending, key=self._rank)]
            self._step(block, self.pending.pop(block.index))
        return self.phases.failed


NOBODY = np.zeros((1, 1), bool)


def _split_mask(mask: Mask, predicate: Array) -> tuple[Mask, Mask]:
    """The lanes of a mask for which a predicate holds, and those for which it does not."""
    if predicate.size == 1 or predicate.all() or not predicate.any():
        return (mask, NOBODY) if predicate.flat[0] else (NOBODY, mask)
    if mask is None:
        return predicate, ~predicate
    return mask & predicate, mask & ~predicate


def _same_snapshot(previous: Snapshot, now: Snapshot) -> bool:
    """Whether two states of waiting lanes are the same."""
    if previous.keys() != now.keys():
        return False
    for n, (mask, registers) in now.items():
        previous_mask, previous_registers = previous[n]
        if not np.array_equal(mask, previous_mask):
            return False
        for register, value in registers.items():
            if ((value != previous_registers[register]) & mask).any():
                return False
    return True


CHUNK = 32_768
"""Lanes that run at once: enough that numpy's own cost is small, few enough for the caches."""
CHUNK_BYTES = 1 << 28
"""Most shared and local memory of a chunk."""
MAX_BLOCKS = 1 << 31
MAX_CLUSTER_BLOCKS = 16
"""More than 8 are not portable (CUDA C++ Programming Guide, "Thread Block Clusters")."""
MAX_SHARED_BYTES = 1 << 18
MAX_LOCAL_BYTES = 1 << 19
"""Bytes a block and a thread; no device has more (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability")."""

BlockChoice = int | Sequence[int | Sequence[int]] | None
"""Which blocks to run: all, so many spread over the grid, or these (numbers or coordinates)."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a launch did.

    ``ran`` thread blocks were run. ``work`` is in lane-instructions, ``cost`` what of a budget it
    took. ``written`` are the names of the buffers that something was stored to; ``printed`` is what
    lanes said by printf, one text a call.
    """

    ran: int
    work: int
    cost: int
    written: tuple[str, ...]
    printed: tuple[str, ...]


def execute(
    program: Program,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Argument],
    *,
    memory: Memory,
    shared: int = 0,
    cluster: Sequence[int] | None = None,
    blocks: BlockChoice = None,
    budget: int | None = None,
    seconds: float | None = None,
    observer: Observer | Sequence[Observer] = (),
    chunk: int = CHUNK,
    warp_order: Sequence[int] = (),
) -> Execution:
    """Runs a kernel on ``memory``.

    ``grid`` and ``block`` have one to three dimensions, as has ``cluster``, in blocks (None: what
    the kernel demands, else 1); of a cluster with a block of ``blocks`` all are run. ``shared`` is
    the launch's dynamic shared memory in bytes, ``budget`` the most lane-instructions (an
    instruction costs at least ``MIN_LANES_COST``), ``seconds`` the most time, ``chunk`` the lanes
    that run at once. Bytes are taken from the memory's budget. ``warp_order``: one warp of each
    block runs as far as it comes before the next in this order does, which is legal, and slow; else
    warps go on together.

    Raises CannotRun before anything is written; LaunchError where no device would take the launch;
    Fault for what a GPU would end it for, and for what would never end; OutOfBudget; Malformed.
    """
    program.check()
    sizes = _triple(grid, "grid"), _triple(block, "block")
    threads = prod(sizes[1])
    if threads > 1024:
        raise LaunchError(f"{program.name}: a block of {threads:,} threads, of at most 1,024")
    if program.required_block is not None and program.required_block != sizes[1]:
        raise LaunchError(
            f"{program.name} demands blocks of {program.required_block} threads, not {sizes[1]}"
        )
    bytes_shared = program.shared_bytes(shared)
    if bytes_shared > MAX_SHARED_BYTES or program.local_size > MAX_LOCAL_BYTES:
        raise LaunchError(
            f"{program.name}: {bytes_shared:,} bytes of shared memory a block and "
            f"{program.local_size:,} of local memory a thread, of at most {MAX_SHARED_BYTES:,} and "
            f"{MAX_LOCAL_BYTES:,}"
        )
    parameters = program.pack(arguments)
    cluster_sizes = cluster_of(program, sizes[0], cluster)
    numbers = choose(sizes[0], blocks, cluster_sizes)
    work = Work(program.name, budget, seconds)
    addresses = program.addresses(memory)

    def machine(block_numbers: Array) -> Machine:
        return Machine(
            program,
            Lanes(*sizes, block_numbers, shared=(shared, bytes_shared), cluster=cluster_sizes),
            memory,
            parameters,
            dynamic=shared,
            addresses=addresses,
            work=work,
            observers=(observer,) if isinstance(observer, Observer) else observer,
            warp_order=warp_order,
        )

    width = -(-threads // 32) * 32
    own_bytes = bytes_shared + width * program.local_size
    if program.uses_tensor_memory:
        own_bytes += BYTES
    clusters_at_once = min(chunk // width, CHUNK_BYTES // max(1, own_bytes)) // prod(cluster_sizes)
    blocks_at_once = max(1, clusters_at_once) * prod(cluster_sizes)
    memory.written.clear()
    try:
        with np.errstate(all="ignore"):
            _run(machine, numbers, blocks_at_once)
    except Fault as fault:
        fault.written = memory.names(memory.written)
        raise
    except OutOfBudget as spent:
        spent.written = memory.names(memory.written)
        spent.reachable = memory.names()
        raise
    written = memory.names(memory.written)
    return Execution(len(numbers), work.done, work.cost, written, tuple(work.printed))


def cluster_of(program: Program, grid: Triple, cluster: Sequence[int] | None) -> Triple:
    """The blocks of a cluster by dimension. Raises LaunchError where a grid has no whole ones.

    1 each for a kernel that names nothing of its cluster: its blocks cannot tell.
    """
    required = program.required_cluster
    x, y, z = sizes = _triple(cluster or required or (1, 1, 1), "cluster")
    if required is not None and required != sizes:
        raise LaunchError(f"{program.name} demands clusters of {required} blocks, not {sizes}")
    if x * y * z > MAX_CLUSTER_BLOCKS:
        raise LaunchError(
            f"{program.name}: a cluster of {x * y * z:,} blocks, of at most {MAX_CLUSTER_BLOCKS}"
        )
    if any(blocks % size for blocks, size in zip(grid, sizes, strict=True)):
        raise LaunchError(f"{program.name}: a grid of {grid} blocks is not of clusters of {sizes}")
    return sizes if program.translator.in_clusters else (1, 1, 1)


class BlockNumbers:
    """Numbers of the blocks to run: ``listed`` ones, or ``count`` spread over a grid, which are
    computed for each slice, because a grid may have 2^31 blocks.

    They ascend; where ``cluster`` has several blocks, they are those of whole clusters, which
    ``listed`` and ``count`` are of, and each cluster's are in the order of their rank.
    """

    def __init__(
        self, grid: Triple, cluster: Triple, count: int, listed: Array | None = None
    ) -> None:
        self._grid = grid
        self._cluster = cluster
        self._size = prod(cluster)
        self._last = prod(grid) // self._size - 1
        self._count = count
        self._listed = listed

    def __len__(self) -> int:
        return self._count * self._size

    def between(self, first: int, end: int) -> Array:
        """The numbers at positions ``first`` to ``end``, the latter excluded."""
        if self._size > 1:
            clusters = self._units(first // self._size, -(-end // self._size))
            skipped = first % self._size
            return self._blocks_of(clusters)[skipped : skipped + end - first]
        return self._units(first, end)

    def _units(self, first: int, end: int) -> Array:
        """The numbers of clusters at some positions; of blocks where a cluster is one."""
        if self._listed is not None:
            return self._listed[first:end]
        positions = np.arange(first, min(end, self._count), dtype=i64)
        return positions * self._last // max(1, self._count - 1)

    def _blocks_of(self, clusters: Array) -> Array:
        """The blocks of clusters, by their rank: x runs fastest, as on an H200."""
        grid_x, grid_y, _ = self._grid
        x, y, _ = self._cluster
        clusters_x = grid_x // x
        clusters_y = grid_y // y
        rank = np.arange(self._size)
        own = clusters[:, None]
        block_x = own % clusters_x * x + rank % x
        block_y = own // clusters_x % clusters_y * y + rank // x % y
        block_z = own // (clusters_x * clusters_y) * self._cluster[2] + rank // (x * y)
        numbers: Array = block_x + grid_x * (block_y + grid_y * block_z)
        return numbers.reshape(-1)


def choose(grid: Triple, blocks: BlockChoice, cluster: Triple = (1, 1, 1)) -> BlockNumbers:
    """The numbers of the blocks to run, in their order. Raises LaunchError."""
    total = prod(grid) // prod(cluster)
    if blocks is None:
        return BlockNumbers(grid, cluster, total)
    if isinstance(blocks, int):
        return BlockNumbers(grid, cluster, min(max(1, -(-blocks // prod(cluster))), total))
    out: set[int] = set()
    for block in blocks:
        x, y, z = place = (
            coordinates(int(block), grid)
            if isinstance(block, int | np.integer)
            else (*block, 0, 0)[:3]
        )
        if not all(0 <= n < size for n, size in zip(place, grid, strict=True)):
            raise LaunchError(f"there is no block {block} in a grid of {grid}")
        places = [n // size for n, size in zip((x, y, z), cluster, strict=True)]
        counts = [n // size for n, size in zip(grid, cluster, strict=True)]
        out.add(places[0] + counts[0] * (places[1] + counts[1] * places[2]))
    return BlockNumbers(grid, cluster, len(out), np.array(sorted(out), i64))


def _triple(sizes: Sequence[int], name: str) -> Triple:
    x, y, z = (*(int(n) for n in sizes), 1, 1)[:3]
    if min(x, y, z) < 1 or x * y * z > MAX_BLOCKS:
        raise LaunchError(f"a {name} of {x}×{y}×{z} cannot be launched")
    return x, y, z


def _run(machine: Callable[[Array], Machine], numbers: BlockNumbers, blocks_at_once: int) -> None:
    """Runs chunks in the order of blocks; one that waits for later ones is gone on with."""
    waiting: list[Machine] = []
    for first in range(0, len(numbers), blocks_at_once):
        chunk = machine(numbers.between(first, first + blocks_at_once))
        if not chunk.run():
            waiting.append(chunk)
        elif waiting:
            waiting = [m for m in waiting if not m.run()]
    # Among chunks that wait for each other it goes round until none has changed anything.
    while waiting:
        change_count = sum(m.memory.changes for m in waiting)
        unfinished = [m for m in waiting if not m.run()]
        if (
            len(unfinished) == len(waiting)
            and sum(m.memory.changes for m in waiting) == change_count
        ):
            raise unfinished[0].deadlock()
        waiting = unfinished
