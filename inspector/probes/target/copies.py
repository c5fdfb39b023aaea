"""Memory that a launch writes, as it was: kept a piece at a time, to be put back and compared.

Beside each piece stands what the interpreter knows of what it stored there: of which type, and how
far the compiled code may be from it (``rounding``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from . import bounds, frames, native, rounding

# Bytes that the copies for one launch may take, and stores that are kept to find the first.
MOST_COPIED = 5 << 30
# Bytes that are kept for each that is written: as it was, as it became, its type, its bound.
TAKEN = 5
MOST_STORES = 200_000


class TooMuch(Exception):
    """More memory would have to be copied than is allowed."""


# -- memory ---------------------------------------------------------------------------------------


class Piece:
    """One piece of device memory as it was, and what the interpreter wrote there."""

    def __init__(self, first: int, end: int) -> None:
        import numpy as np

        self.first, self.size = first, end - first
        memory: Any = (ctypes.c_uint8 * self.size).from_address(first)
        self.now = np.frombuffer(memory, np.uint8)
        self.before = self.now.copy()
        self.interpreted: Any = self.before
        # By byte, the type of the element, from 1. By two bytes, from when one is not exact: its
        # bound, the sum of the sizes that were added to it, and how many they were.
        self.kinds = np.zeros(self.size, np.uint8)
        self.bound: Any = None
        self.added: Any = None
        self.count: Any = None

    def bounds(self, offsets: Any) -> Any:
        """The bounds of elements at these offsets."""
        import numpy as np

        if self.bound is None:
            return np.zeros(len(offsets))
        return self.bound[offsets >> 1].astype(np.float64)

    def begin(self, counted: bool) -> None:
        """From now on bounds are kept; ``counted``: sums, too."""
        import numpy as np

        half = self.size // 2 + 1
        if self.bound is None:
            self.bound = np.zeros(half, np.float32)
        if counted and self.added is None:
            self.added, self.count = np.zeros(half, np.float32), np.zeros(half, np.int32)


class Copies:
    """The pieces of memory that a launch writes, each copied before it is written first."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        import numpy as np

        there = set(native.memory())
        for tensor in tensors.values():
            storage = tensor.untyped_storage()
            first = int(storage.data_ptr())
            if storage.nbytes() and native.memory_around(first, first + 1) is None:
                there.add((first, first + int(storage.nbytes())))
        self.places = sorted(piece for piece in there if piece[1] > piece[0])
        self.starts = np.array([first for first, _ in self.places], np.uint64)
        self.ends = np.array([end for _, end in self.places], np.uint64)
        self.pieces: dict[int, Piece] = {}
        self.copied = 0
        self.incomplete = False
        self.kinds: list[str] = []
        self.reasons: dict[str, None] = {}
        self.follow: Any = None
        self.followed: list[tuple[Any, int, Any, str, Any]] = []

    def split(self, addresses: Any) -> Iterator[tuple[int, Any]]:
        """Addresses by the number of the piece that they are in, each with where they stand.

        What is in no piece, such as a launch's own scratch memory, is left out.
        """
        import numpy as np

        if not self.places or not addresses.size:
            return
        numbers = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        low, high = int(numbers.min()), int(numbers.max())
        if low == high and low >= 0 and int(addresses.max()) < self.places[low][1]:
            yield low, slice(None)
            return
        inside = (numbers >= 0) & (addresses < self.ends[numbers])
        for number in np.unique(numbers[inside]):
            yield int(number), np.flatnonzero(inside & (numbers == number))

    def piece(self, number: int) -> Piece:
        """A piece of memory, copied if it was not. Raises TooMuch."""
        piece = self.pieces.get(number)
        if piece is None:
            first, end = self.places[number]
            self.copied += TAKEN * (end - first)
            if self.copied > MOST_COPIED:
                raise TooMuch
            piece = self.pieces[number] = Piece(first, end)
        return piece

    def before_write(self, addresses: Any, size: int) -> None:
        """Somebody is about to write here."""
        for number, _ in self.split(addresses):
            if number not in self.pieces:
                self.piece(number)

    def taken_back(self) -> None:
        """The interpreter is done: memory is as it was."""
        for piece in self.pieces.values():
            piece.interpreted = piece.now.copy()
            piece.now[:] = piece.before

    def restore(self) -> None:
        """Memory as it was before the launch."""
        for piece in self.pieces.values():
            piece.now[:] = piece.before

    # -- what rounding tells ----------------------------------------------------------------------

    def undetermined(self, why: str) -> None:
        """Where the two part, it need not be the compiler's fault."""
        self.reasons[why] = None

    def bounds(self, addresses: Any) -> Any:
        """The bounds of what lies there, in the shape of the addresses; None where all is exact."""
        import numpy as np

        if all(piece.bound is None for piece in self.pieces.values()):
            return None
        flat = addresses.reshape(-1)
        out = np.zeros(flat.shape)
        for number, places in self.split(flat):
            piece = self.pieces.get(number)
            if piece is not None and piece.bound is not None:
                offsets = (flat[places] - np.uint64(piece.first)).astype(np.int64)
                inside = (offsets >= 0) & (offsets < piece.size)
                out[places] = np.where(inside, piece.bounds(np.where(inside, offsets, 0)), 0.0)
        return out.reshape(addresses.shape)

    def _offsets(self, addresses: Any, size: int) -> Iterator[tuple[Piece, Any, Any]]:
        import numpy as np

        for number, places in self.split(addresses):
            piece = self.piece(number)
            offsets = (addresses[places] - np.uint64(piece.first)).astype(np.int64)
            # A lane that is masked off may point anywhere.
            inside = (offsets >= 0) & (offsets + size <= piece.size)
            if not inside.all():
                base = np.arange(len(addresses))[places]
                places, offsets = base[inside], offsets[inside]
            yield piece, places, offsets

    def _kind(self, name: str) -> int:
        if name not in self.kinds:
            self.kinds.append(name)
        return self.kinds.index(name) + 1

    def wrote(self, addresses: Any, kind: str, size: int, bound: Any) -> None:
        """Elements were stored, with these bounds."""
        import numpy as np

        exact = not bound.any()
        for piece, places, offsets in self._offsets(addresses, size):
            for byte in range(size):
                piece.kinds[offsets + byte] = self._kind(kind)
            if exact and piece.bound is None:
                continue
            piece.begin(counted=False)
            at = offsets >> 1
            with np.errstate(over="ignore"):
                if size == 1:  # two share a place: neither is taken for more exact than it is
                    np.maximum.at(piece.bound, at, bound[places] * 1.000001)
                else:
                    piece.bound[at] = bound[places] * 1.000001
            if piece.count is not None:
                piece.count[at] = 0
                piece.added[at] = 0
        self._log(addresses, size, kind)

    def added(self, addresses: Any, kind: str, size: int, bound: Any, values: Any) -> None:
        """Floats were added to what lay there, in an order that is the hardware's."""
        import numpy as np

        half = rounding.HALF_ULP[kind]
        for piece, places, offsets in self._offsets(addresses, size):
            for byte in range(size):
                piece.kinds[offsets + byte] = self._kind(kind)
            piece.begin(counted=True)
            at, where = offsets >> 1, np.unique(offsets)
            there = np.abs(decoded(piece.before, where, kind))
            there = np.where(np.isfinite(there), there, 0.0)
            sizes = np.where(np.isfinite(values[places]), np.abs(values[places]), 0.0)

            def own(piece: Piece = piece, where: Any = where >> 1, there: Any = there) -> Any:
                """Of n sums each may be off by half a unit of all that was added, either way."""
                count = np.where(piece.count[where] > 1, piece.count[where], 0)
                return 2 * half * np.minimum(count, 1 / half) * (piece.added[where] + there)

            with np.errstate(over="ignore", invalid="ignore"):
                before = own()
                np.add.at(piece.bound, at, bound[places] * 1.000001)
                np.add.at(piece.added, at, sizes * 1.000001)
                np.add.at(piece.count, at, 1)
                piece.bound[where >> 1] += (own() - before) * 1.000001
        self._log(addresses, size, kind)

    def _log(self, addresses: Any, size: int, kind: str) -> None:
        """Keep what was stored at the addresses that are followed."""
        import numpy as np

        if self.follow is None or len(self.followed) >= MOST_STORES:
            return
        hit = np.isin(addresses & ~np.uint64(size - 1), self.follow & ~np.uint64(size - 1))
        if not hit.any():
            return
        chosen = addresses[hit]
        values = np.zeros((len(chosen), size), np.uint8)
        for piece, places, offsets in self._offsets(chosen, size):
            for byte in range(size):
                values[places, byte] = piece.now[offsets + byte]
        self.followed.append((chosen, size, values, frames.here(), bounds.program()))


def decoded(data: Any, offsets: Any, kind: str) -> Any:
    """Elements of a type, as float64; integers exactly enough to be shown."""
    import numpy as np

    size = ELEMENT[kind]
    raw = np.stack([data[offsets + byte] for byte in range(size)], -1)
    if kind == "bf16":
        wide = np.zeros((len(raw), 4), np.uint8)
        wide[:, 2:] = raw
        return wide.view(np.float32).reshape(-1).astype(np.float64)
    if kind in ("fp8e4nv", "fp8e5"):
        import torch

        form = torch.float8_e4m3fn if kind == "fp8e4nv" else torch.float8_e5m2
        return torch.from_numpy(raw.reshape(-1).copy()).view(form).double().numpy()
    return np.ascontiguousarray(raw).view(FLOAT[kind]).reshape(-1).astype(np.float64)


ELEMENT = {"fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8, "fp8e4nv": 1, "fp8e5": 1}
FLOAT = {"fp16": "<f2", "fp32": "<f4", "fp64": "<f8"}
# What a tensor's type is called in Triton, for what only the PTX stored.
TORCH = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
         "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "int8": "int8", "uint8": "uint8",
         "int16": "int16", "int32": "int32", "int64": "int64", "bool": "int1",
         "uint16": "uint16", "uint32": "uint32", "uint64": "uint64"}  # fmt: skip
WIDTHS = {"8": 1, "1": 1, "16": 2, "32": 4, "64": 8}


def size_of(kind: str) -> int:
    if kind in ELEMENT:
        return ELEMENT[kind]
    bits = kind[len(kind.rstrip("0123456789")) :]
    return WIDTHS.get(bits, 8 if kind.startswith("pointer") else 1) if bits else 8


def judged(
    piece: Piece, starts: Any, kind: str, told: str
) -> tuple[Any, int, tuple[float, float, str] | None]:
    """Of elements whose bytes differ: those that are wrong, how many nothing is known of, and of
    the others the nearest to its bound. ``kind`` is empty where the interpreter stored nothing."""
    import numpy as np

    limit = piece.bounds(starts)
    if kind not in ELEMENT:
        unknown = np.isinf(limit)
        return starts[~unknown], int(unknown.sum()), None
    x, y = decoded(piece.now, starts, kind), decoded(piece.interpreted, starts, kind)
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
    unknown = np.isinf(limit) & ~same
    with np.errstate(all="ignore"):
        within = same | (apart <= limit * 1.000001)
    wrong = starts[~within & ~unknown]
    fine = within & ~same & ~unknown
    if not fine.any():
        return wrong, int(unknown.sum()), None
    half, least = rounding.HALF_ULP[kind], rounding.LEAST[kind]
    ulp = np.maximum(2 * half * 2.0 ** np.floor(np.log2(np.maximum(np.abs(y[fine]), least))), least)
    ratio = apart[fine] / limit[fine]
    at = int(np.argmax(ratio))
    near = (float(apart[fine][at] / ulp[at]), float(limit[fine][at] / ulp[at]), told)
    return wrong, int(unknown.sum()), near
