"""Whether a variant's result agrees with the reference, and whether it really wrote it.

Memory that is handed out again still holds what was there before: the result of the variant before
it, which is right. So the free memory is filled with NaN before each call that is checked; what a
variant does not write shows.
"""

from __future__ import annotations

from typing import Any

# Blocks of a result's size that are filled: a call may allocate more than one of that size, and of
# another dtype than the reference's.
BLOCKS = 3
ITEM_SIZES = (4, 2, 8, 1)
# At most so much of the device's memory, which other blocks may need.
MOST_POISON = 8 << 30


def tensors(found: Any) -> list[Any]:
    """The tensors in what a call was given or gave, in order, of nested tuples, lists and dicts."""
    if hasattr(found, "data_ptr") and hasattr(found, "dtype"):
        return [found]
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, tuple | list):
        return [t for one in found for t in tensors(one)]
    return []


def poison(torch: Any, like: list[Any]) -> None:
    """Fill free memory, of the sizes that ``like`` has, with bytes that are NaN in every format."""
    if like[0].is_cuda:
        torch.cuda.empty_cache()  # what is free then is little, and is filled first
    held: list[Any] = []
    filled = 0
    for size in (one.numel() * item for item in ITEM_SIZES for one in like):
        for _ in range(BLOCKS):
            filled += size
            if filled > MOST_POISON:
                return
            try:
                block = torch.empty(size, dtype=torch.uint8, device=like[0].device)
            except RuntimeError:  # no room for more: what was free is filled
                return
            held.append(block.fill_(0xFF))


class Kept:
    """The inputs as they were, to see whether a variant changed them, and to give them back."""

    def __init__(self, torch: Any, given: tuple[Any, ...]) -> None:
        self._torch = torch
        self._own = tensors(given)
        self._copies = [t.detach().clone() for t in self._own]

    def changed(self) -> bool:
        """Whether an input has changed; if so it is as it was again."""
        found = False
        for own, copy in zip(self._own, self._copies, strict=True):
            if not self._same(own, copy):
                found = True
                with self._torch.no_grad():
                    own.copy_(copy)
        return found

    def _same(self, own: Any, copy: Any) -> bool:
        if own.shape != copy.shape:
            return False
        a, b = (t.detach().reshape(-1).view(self._torch.uint8) for t in (own, copy))
        return bool(self._torch.equal(a, b))  # byte for byte: NaN is not itself


def compared(
    torch: Any, result: Any, reference: Any, tolerance: dict[str, float]
) -> tuple[bool, float | None, str | None]:
    """Whether a result agrees, the greatest absolute difference, and in words why it does not.

    Tolerances are those of ``torch.testing.assert_close`` for the result's dtype where none are
    given; a reference of higher precision is welcome.
    """
    ours, theirs = tensors(result), tensors(reference)
    if len(ours) != len(theirs):
        return False, None, f"it gives {len(ours)} tensors, the reference {len(theirs)}"
    far: float | None = None
    why: str | None = None
    for got, wanted in zip(ours, theirs, strict=True):
        if got.shape != wanted.shape:
            return False, None, f"its shape is {shape(got)}, the reference's {shape(wanted)}"
        if got.device != wanted.device:
            return False, None, f"it is on {got.device}, the reference on {wanted.device}"
        given = {**standard(torch, got.dtype), **tolerance}
        a, b = (_wide(torch, t, got, wanted) for t in (got, wanted))
        off = (a - b).abs()
        close = (
            (off <= given["atol"] + given["rtol"] * b.abs()) | (a == b) | (a.isnan() & b.isnan())
        )
        known = off[~(a.isnan() | b.isnan() | (a == b))]
        most = float(known.max()) if known.numel() else 0.0
        far = most if far is None else max(far, most)
        bad = int((~close).sum())
        if bad and why is None:
            nan = int((a.isnan() & ~b.isnan()).sum())
            what = f"{bad:,} of {a.numel():,} values differ"
            why = f"{what}, {nan:,} of them NaN: were they written?" if nan else what
    return why is None, far, why


def _wide(torch: Any, one: Any, *both: Any) -> Any:
    """A tensor in a type that holds both sides' values; of complex numbers, their parts."""
    if any(t.is_complex() for t in both):
        return torch.view_as_real(one.detach().to(torch.complex128))
    narrow = all(t.dtype.is_floating_point and t.element_size() <= 4 for t in both)
    return one.detach().to(torch.float32 if narrow else torch.float64)


def shape(tensor: Any) -> str:
    """``1823×781``."""
    return "×".join(map(str, tensor.shape)) or "scalar"


def standard(torch: Any, dtype: Any) -> dict[str, float]:
    """``torch.testing.assert_close``'s own tolerances for a dtype."""
    known = {
        torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
        torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5),
        torch.complex128: (1e-7, 1e-7),
    }  # fmt: skip
    if dtype in known:
        rtol, atol = known[dtype]
        return {"rtol": rtol, "atol": atol}
    if dtype.is_floating_point:  # fp8: one part in 8 or in 4
        return {"rtol": 0.125, "atol": 1e-3}
    return {"rtol": 0.0, "atol": 0.0}


def described(given: tuple[Any, ...]) -> tuple[str, list[str]]:
    """The tensors among a call's arguments in words, and their dtypes: ``float32 1823×781``."""
    words: list[str] = []
    dtypes: list[str] = []
    for one in tensors(given):
        name = str(one.dtype).removeprefix("torch.")
        words.append(shape(one) if dtypes and dtypes[-1] == name else f"{name} {shape(one)}")
        dtypes.append(name)
    return ", ".join(words), list(dict.fromkeys(dtypes))
