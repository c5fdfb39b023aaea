"""Two oracles against each other: a launch's PTX is run and its Python interpreted, each on the
same memory, and what they leave there is compared.

The interpreter goes first, and what it wrote is taken back; so the program goes on with what the
PTX gives. Of memory that is written a copy is kept, a piece at a time. Floats may differ by what
the compiler may do (``rounding``), everything else must be equal byte for byte. Where they differ,
both are done again, and of the stores to the addresses in question the first that differs is named.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..writer import emit
from . import bounds, interp, ptx, rounding, say
from .copies import (
    ELEMENT,
    MOST_COPIED,
    MOST_STORES,
    TAKEN,
    TORCH,
    Copies,
    Piece,
    TooMuch,
    decoded,
    judged,
    size_of,
)
from .work import OverBudget

TOO_MUCH = f"it writes to more memory than can be compared ({MOST_COPIED // TAKEN >> 30} GiB)"
# Addresses that are followed to the store that differs first.
MOST_FOLLOWED = 100_000
# Differences of one kernel that are told each for itself.
MOST_TOLD = 20
# Launches of one kernel after which its count is written with each; then with every so many.
EACH, EVERY = 64, 32


# -- what the PTX stores --------------------------------------------------------------------------


class _Stores:
    """An observer of the executor that has memory copied before it is stored to."""

    def __init__(self, copies: Copies, program: Any, listing: Any) -> None:
        self.copies, self.program, self.listing = copies, program, listing
        self.followed: list[tuple[Any, int, Any, int, Any, Any]] = []
        self.lanes: Any = None

    def visit(self, lanes: Any, block: Any, mask: Any) -> None: ...
    def step(self, lanes: Any, instruction: int, mask: Any) -> None: ...
    def wrote(self, lanes: Any, instruction: int, register: int, value: Any, mask: Any) -> None: ...
    def branched(self, lanes: Any, instruction: int, yes: Any, no: Any) -> None: ...

    def access(self, lanes: Any, access: Any) -> None:
        """Lanes are about to store."""
        import numpy as np

        if access.space != "global" or not access.way.endswith(("store", "atomic")):
            return
        if access.lane is not None:
            rows, columns = (np.full(len(access.address), n) for n in access.lane)
            address = access.address
            values = access.values
        else:
            keep = lanes.full_mask(access.mask)
            if not keep.any():
                return
            rows, columns = np.nonzero(keep)
            address = lanes.full(access.address)[keep]
            values = tuple(lanes.full(v)[keep] for v in access.values)
        try:
            self.copies.before_write(address, access.nbytes)
        except TooMuch:
            self.copies.incomplete = True
        if self.copies.follow is not None and len(self.followed) < MOST_STORES:
            self._log(lanes, access, address, values, rows, columns)

    def _log(
        self, lanes: Any, access: Any, address: Any, values: Any, rows: Any, columns: Any
    ) -> None:
        import numpy as np

        self.lanes = lanes
        count = max(1, len(values))
        size = access.nbytes // count
        line = self.program.code.instructions[access.instruction].line
        for k in range(count):
            at = address + np.uint64(k * size)
            hit = np.isin(at & ~np.uint64(size - 1), self.copies.follow & ~np.uint64(size - 1))
            if not hit.any():
                continue
            plain = access.way.endswith("store") and bool(values)
            bits = np.ascontiguousarray(values[k][hit]).view(np.uint8) if plain else None
            self.followed.append((
                at[hit], size, None if bits is None else bits.reshape(int(hit.sum()), -1), line,
                [lanes.block_of(int(r)) for r in rows[hit]],
                [lanes.thread_of(int(c)) for c in columns[hit]],
            ))  # fmt: skip


# -- one launch -----------------------------------------------------------------------------------


class Differing(NamedTuple):
    """What the comparison of memory found: addresses of elements, and how far they are apart."""

    addresses: Any
    kinds: list[str]
    """By element, its type."""
    elements: int
    """How many differ."""
    written: int
    """How many were written."""


class Compared(NamedTuple):
    """What the comparison of memory came to."""

    differing: Differing | None
    unsure: int
    """Elements that differ and of which no bound is known."""
    identical: bool
    worst: tuple[float, float, str] | None
    """Of the floats that differ within their bounds, the one nearest to its bound: how far it is
    and may be, in units in the last place of its type."""


class Check:
    """One launch, by both."""

    def __init__(self, name: str, asm: Any, metadata: Any, tensors: dict[str, Any]) -> None:
        self.name, self.tensors = name, tensors
        self.hash = str(getattr(metadata, "hash", "") or "")
        self.ptx = asm.get("ptx") if hasattr(asm, "get") else None
        self.copies: Copies | None = None
        self.stores: _Stores | None = None
        self.refused = ""
        self.fault: BaseException | None = None

    # -- the interpreter --------------------------------------------------------------------------

    def interpret(self, run: Callable[[], None]) -> None:
        """Interpret the launch, and take back what it wrote."""
        try:
            rounding.table()
        except ImportError:
            self.refused = "Python is older than 3.11"
            return
        self.copies = Copies(self.tensors)
        try:
            self._interpreting(run)
        except interp.NotInterpretable as error:
            self.refused = f"its Python cannot be interpreted ({error})"
        except OverBudget:
            self.refused = "interpreting it would take more than the time allowed (--value-seconds)"
        except TooMuch:
            self.refused = TOO_MUCH
        except bounds.AbsentValue as error:
            self.refused = f"it reads what has no value ({error})"
        except interp.OWN_ERRORS as error:
            self.fault = error
        finally:  # who interrupts a program finds its memory as it was
            self.copies.taken_back()

    def _interpreting(self, run: Callable[[], None]) -> None:
        import numpy as np

        assert self.copies is not None
        before = dict(bounds._launches)
        rounding.begin(self.copies, rounding.allowed(self.ptx or ""))
        try:
            with np.errstate(all="ignore"):
                run()
        except interp.NotInterpretable as error:
            if isinstance(error.__cause__, TooMuch):
                raise error.__cause__ from None
            raise
        finally:
            rounding.end()
            bounds._launches.clear()
            bounds._launches.update(before)

    def observer(self, program: Any, listing: Any) -> Any:
        """Who watches the PTX; None where there is nothing to compare with."""
        if self.copies is None or self.refused:
            return None
        self.stores = _Stores(self.copies, program, listing)
        return self.stores

    # -- the end ----------------------------------------------------------------------------------

    def compare(
        self, grid: Any, again: Callable[[], None], by_ptx: Callable[[], None], file: str
    ) -> None:
        """The PTX has run: the two are held against each other, and what that came to is told."""
        tally = _tally(self)
        if self.refused or self.copies is None:
            tally.left_out(self.refused or "there is no Python of it")
            return
        if self.copies.incomplete:
            tally.left_out(TOO_MUCH)
            return
        if self.fault is not None:
            tally.left_out(
                f"its Python ends in an error, and its PTX does not ({_brief(self.fault)})"
            )
            return
        compared = self._compared()
        if compared.differing is not None and self.copies.reasons:
            tally.left_out(next(iter(self.copies.reasons)))
        elif compared.differing is not None:
            told = self._first(compared.differing, grid, again, by_ptx, file)
            tally.differs(told)
        elif compared.unsure:
            tally.left_out("what it stores depends on a comparison, a reduction or an order of "
                           "which no bound is known")  # fmt: skip
        else:
            tally.agrees(compared)

    def failed(self, error: BaseException, grid: Any) -> None:
        """The PTX ended in a fault, or was not run to its end."""
        tally = _tally(self)
        fault = getattr(error, "fault", None)
        if isinstance(error, (OverBudget, bounds.AbsentValue)) or fault is None:
            tally.left_out("its PTX was not run to its end")
        elif self.refused or self.copies is None:
            tally.left_out(self.refused or "there is no Python of it")
        elif self.fault is not None:
            tally.left_out("it ends in an error by its PTX and by its Python")
        elif self.copies.reasons:
            tally.left_out(next(iter(self.copies.reasons)))
        else:
            place = fault.place
            said = str(error).partition("ptxview: ")[2] or str(error)
            tally.differs({
                "kind": "fault", "grid": list(grid), "line": place.line,
                "statement": _statement(place.statement),
                "source": getattr(error, "source", ""),
                "block": _listed(place.block), "thread": _listed(place.thread),
                "address": fault.address,
                "text": f"{said}; its Python does nothing of the kind",
            })  # fmt: skip

    # -- comparing --------------------------------------------------------------------------------

    def _compared(self) -> Compared:
        import numpy as np

        assert self.copies is not None
        bad: list[tuple[Any, str]] = []
        unsure = elements = written = 0
        identical = True
        worst: tuple[float, float, str] | None = None
        for piece in self.copies.pieces.values():
            written += int(np.count_nonzero(piece.kinds))
            apart = np.flatnonzero(piece.now != piece.interpreted)
            if not apart.size:
                continue
            identical = False
            codes = piece.kinds[apart]
            for code in np.unique(codes):
                kind = self.copies.kinds[code - 1] if code else self._kind_at(piece)
                size = size_of(kind)
                first = piece.first
                starts = np.unique(((apart[codes == code] + first) & ~(size - 1)) - first)
                starts = starts[(starts >= 0) & (starts + size <= piece.size)]
                wrong, open_, near = judged(piece, starts, kind if code else "", kind)
                unsure += open_
                if near is not None and (worst is None or near[0] * worst[1] > worst[0] * near[1]):
                    worst = near
                if wrong.size:
                    elements += len(wrong)
                    bad.append((wrong + first, kind))
        if not bad:
            return Compared(None, unsure, identical, worst)
        addresses = np.concatenate([a for a, _ in bad]).astype(np.uint64)
        kinds = [kind for a, kind in bad for _ in range(len(a))]
        return Compared(Differing(addresses, kinds, elements, written), unsure, False, worst)

    def _kind_at(self, piece: Piece) -> str:
        """The type of a tensor that lies in a piece of memory."""
        for tensor in self.tensors.values():
            if piece.first <= int(tensor.data_ptr()) < piece.first + piece.size:
                return TORCH.get(str(tensor.dtype).removeprefix("torch."), "uint8")
        return "uint8"

    # -- the first that differs -------------------------------------------------------------------

    def _first(
        self, differing: Differing, grid: Any, again: Callable[[], None],
        by_ptx: Callable[[], None], file: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Do both again, and find of the stores in question the first that differs."""
        import numpy as np

        assert self.copies is not None and self.stores is not None
        kept = {number: piece.now.copy() for number, piece in self.copies.pieces.items()}
        python: list[Any] = []
        stores: list[Any] = []
        follow = np.sort(differing.addresses)[:MOST_FOLLOWED]
        try:
            self.copies.restore()
            self.copies.follow = follow
            with contextlib.redirect_stdout(io.StringIO()):
                self._interpreting(again)
            python = self.copies.followed
            self.copies.restore()
            by_ptx()
            stores = self.stores.followed
        except Exception as error:
            say.problem(f"{self.name} could not be run again to find the store: {error}")
        finally:
            self.copies.follow = None
            for number, piece in self.copies.pieces.items():
                if number in kept:
                    piece.now[:] = kept[number]
        at, mine, theirs = self._earliest(differing, stores, python)
        return self._told(differing, grid, at, mine, theirs, file)

    def _earliest(
        self, differing: Differing, stores: list[Any], python: list[Any]
    ) -> tuple[int, tuple[Any, int, int] | None, tuple[Any, int] | None]:
        """An address, the store of the PTX there that differs first, and the Python's of the same
        turn; None where one of the two stores nothing there."""
        by_python: dict[int, list[tuple[Any, int]]] = {}
        for entry in python:
            for k, address in enumerate(entry[0].tolist()):
                by_python.setdefault(address, []).append((entry, k))
        wrong = dict(zip(differing.addresses.tolist(), differing.kinds, strict=True))
        turns: dict[int, int] = {}
        for n, entry in enumerate(stores):
            for k, address in enumerate(entry[0].tolist()):
                if address not in wrong:
                    continue
                turn = turns[address] = turns.get(address, 0) + 1
                theirs = by_python.get(address, [])
                if turn > len(theirs):
                    return address, (entry, k, n), None
                other, m = theirs[turn - 1]
                if entry[2] is None or not self._alike(address, entry, k, other, m, wrong[address]):
                    return address, (entry, k, n), theirs[turn - 1]
        never = [a for a in sorted(wrong) if a not in turns]
        at = never[0] if never else min(wrong)
        last = by_python.get(at)
        return at, None, last[-1] if last else None

    def _alike(self, address: int, mine: Any, k: int, other: Any, m: int, kind: str) -> bool:
        """Whether two stores are one within the bound of what lay there in the end."""
        import numpy as np

        a, b = mine[2][k], other[2][m]
        if len(a) != len(b) or bool((a == b).all()):
            return len(a) == len(b)
        if kind not in ELEMENT or len(a) != ELEMENT[kind]:
            return False
        x, y = (float(decoded(v, np.array([0]), kind)[0]) for v in (a, b))
        return abs(x - y) <= self._bound_at(address)

    def _piece_at(self, address: int) -> Piece | None:
        assert self.copies is not None
        return next((p for p in self.copies.pieces.values()
                     if p.first <= address < p.first + p.size), None)  # fmt: skip

    def _bound_at(self, address: int) -> float:
        import numpy as np

        piece = self._piece_at(address)
        if piece is None:
            return 0.0
        return float(piece.bounds(np.array([address - piece.first]))[0])

    def _told(
        self, differing: Differing, grid: Any, at: int, mine: Any, theirs: Any, file: str
    ) -> dict[str, Any]:
        """What the difference is, as values and as a sentence."""
        assert self.stores is not None
        piece = self._piece_at(at)
        assert piece is not None
        kind = differing.kinds[differing.addresses.tolist().index(at)]
        size, offset = size_of(kind), at - piece.first
        by_ptx = _shown(piece.now[offset : offset + size], kind)
        by_python = _shown(piece.interpreted[offset : offset + size], kind)
        out: dict[str, Any] = {
            "kind": "value", "grid": list(grid), "address": at, "elements": differing.elements,
            "type": kind, "bound": _finite(self._bound_at(at)) if kind in ELEMENT else None,
        }  # fmt: skip
        out["tensor"], out["index"], name = self._element(at)
        source = line = None
        if mine is not None:
            entry, k, _ = mine
            if entry[2] is not None:
                by_ptx = _shown(entry[2][k], kind)
            line, source = entry[3], ptx.source(self.stores.listing, entry[3], file)
            out.update(block=_listed(entry[4][k]), thread=_listed(entry[5][k]))
        if theirs is not None:
            other, m = theirs
            by_python = _shown(other[2][m], kind)
            out["python"], out["program"] = other[3], _listed(other[4])
            if mine is None:
                out["kind"], by_ptx = "missing", None
                line = self._line_of(other[3], file)
                out["block"] = _listed(other[4])
        elif mine is not None:
            out["kind"], by_python = "extra", None
        out.update(ptx_value=by_ptx, python_value=by_python, line=line, source=source)
        out["statement"] = (
            "" if line is None else self.stores.program.statement(line).rstrip("; ")[:200]
        )
        out["text"] = _sentence(out, name)
        return out

    def _line_of(self, place: str, file: str) -> int | None:
        """The line of PTX that stores what a line of Python stores."""
        assert self.stores is not None
        for line in self.stores.listing.lines:
            stores = line.base in ("st", "red", "atom", "cp") and place
            if stores and "shared" not in (line.opcode or ""):
                if ptx.source(self.stores.listing, line.n, file) != place:
                    continue
                return int(line.n)
        return None

    def _element(self, address: int) -> tuple[str | None, list[int] | None, str]:
        """The tensor that an address lies in, the index there, and the two as one would write."""
        for name, tensor in self.tensors.items():
            first = int(tensor.data_ptr())
            left, odd = divmod(address - first, int(tensor.element_size()))
            if address < first or odd or not tensor.numel():
                continue
            order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
            index = [0] * tensor.dim()
            for d in order:
                step = int(tensor.stride(d))
                if step and tensor.shape[d] > 1:
                    index[d] = min(left // step, int(tensor.shape[d]) - 1)
                    left -= index[d] * step
            if left == 0:
                return name, index, f"{name}[{', '.join(map(str, index))}]"
        near = bounds.nearest(self.tensors, address)
        return None, None, f"{address:#x}" + (f" ({near})" if near else "")


def _shown(raw: Any, kind: str) -> Any:
    """The value of an element, as JSON has it."""
    import numpy as np

    if kind in ELEMENT and len(raw) == ELEMENT[kind]:
        return _finite(float(decoded(raw, np.array([0]), kind)[0]))
    signed = kind.startswith("int") and kind != "int1"
    return int.from_bytes(bytes(raw), "little", signed=signed)


def _finite(value: float) -> Any:
    return value if math.isfinite(value) else str(value)


def _listed(place: Any) -> list[int] | None:
    return None if place is None else [int(n) for n in place]


def _statement(text: str) -> str:
    return text.rstrip("; ")[:200]


def _brief(error: BaseException) -> str:
    said = str(error).partition("ptxview: ")[2] or str(error)
    return said.splitlines()[0][:200] if said else type(error).__name__


def _sentence(told: dict[str, Any], name: str) -> str:
    line, statement = told["line"], told["statement"]
    of_ptx = "" if line is None else f"PTX line {line}: {statement}"
    if told["source"]:
        of_ptx += f"; {told['source']}"
    python = f"{told['python']}" if told.get("python") else ""
    who = f"program {tuple(told['block'])}" if told.get("block") else ""
    if told.get("thread"):
        who += f", thread {tuple(told['thread'])}"
    count = told["elements"]
    more = f"; {count} elements differ" if count > 1 else ""
    if told["kind"] == "missing":
        near = f" ({of_ptx})" if of_ptx else ""
        return (
            f"{who}: the Python stores {told['python_value']} to {name} ({python}), and the PTX "
            f"stores nothing there{near}{more}"
        )
    if told["kind"] == "extra":
        return (
            f"{who}: the PTX stores {told['ptx_value']} to {name} ({of_ptx}), and the Python "
            f"stores nothing there{more}"
        )
    allowed = "" if told["bound"] is None else f", which rounding may change by {told['bound']:.3g}"
    if isinstance(told["bound"], str):
        allowed = ""
    return (
        f"{who}: the PTX stores {told['ptx_value']} to {name} ({of_ptx or 'line not known'}), and "
        f"the Python {told['python_value']}{f' ({python})' if python else ''}{allowed}{more}"
    )


# -- what all launches came to --------------------------------------------------------------------


class _Tally:
    """What the launches of one variant came to in this process."""

    def __init__(self, check: Check) -> None:
        self.name, self.hash = check.name, check.hash
        self.agree = self.identical = self.differ = self.told = 0
        self.unverified: dict[str, int] = {}
        self.worst: tuple[float, float, str] | None = None
        self.written = 0

    @property
    def launches(self) -> int:
        """All of them."""
        return self.agree + self.differ + sum(self.unverified.values())

    def agrees(self, compared: Compared) -> None:
        self.agree += 1
        self.identical += compared.identical
        near = compared.worst
        if near and (self.worst is None or near[0] * self.worst[1] > self.worst[0] * near[1]):
            self.worst = near
        self._count()

    def differs(self, told: dict[str, Any]) -> None:
        self.differ += 1
        self.told += 1
        if self.told <= MOST_TOLD:
            emit({
                "event": "differs", "name": self.name, "hash": self.hash, "launch": self.launches,
                **told,
            })  # fmt: skip
        self._count(now=True)

    def left_out(self, why: str) -> None:
        self.unverified[why] = self.unverified.get(why, 0) + 1
        self._count()

    def _count(self, now: bool = False) -> None:
        if now or self.launches <= EACH or self.launches % EVERY == 0:
            self.write()

    def write(self) -> None:
        """What it came to by now; a later one counts in place of this."""
        if self.launches == self.written:
            return
        self.written = self.launches
        worst = None
        if self.worst is not None:
            worst = {"ulps": self.worst[0], "bound_ulps": self.worst[1], "type": self.worst[2]}
        emit({
            "event": "verified", "name": self.name, "hash": self.hash, "launches": self.launches,
            "agree": self.agree, "identical": self.identical, "differ": self.differ,
            "unverified": self.unverified, "worst": worst,
        })  # fmt: skip


_tallies: dict[tuple[str, str], _Tally] = {}


def _tally(check: Check) -> _Tally:
    key = (check.name, check.hash)
    if key not in _tallies:
        if not _tallies:
            atexit.register(_write_all)
        _tallies[key] = _Tally(check)
    return _tallies[key]


def _write_all() -> None:
    for tally in _tallies.values():
        tally.write()


def leave_out(name: str, digest: str, why: str) -> None:
    """A launch that is not verified at all, and why."""
    made = Check(name, {}, None, {})
    made.hash = digest
    _tally(made).left_out(why)
