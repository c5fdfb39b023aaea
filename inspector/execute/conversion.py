"""The translation of moves and conversions: ``mov``, ``cvt``, ``cvta``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inspector.execute.kinds import WIDTHS, is_float
from inspector.execute.translate import Handler, Translator, Untranslatable, window_of
from inspector.listing.ptx_statement import ImmediateOperand, PtxInstruction, VectorOperand

_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rs", "rni", "rzi", "rmi", "rpi")
_TO_WHOLE = {"rni": "np.rint", "rzi": "np.trunc", "rmi": "np.floor", "rpi": "np.ceil"}
_SMALL = ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2")
"""Formats of at most eight bits, which are converted in pairs."""


def _move(t: Translator, row: PtxInstruction) -> None:
    target, source, kind = row.operands[0], row.operands[1], row.kind
    if kind == "pred":
        t.write(target, t.read(source, "pred"))
        return
    if kind not in WIDTHS:
        raise Untranslatable("registers of 128 bits are not known here")
    width = WIDTHS[kind]
    if isinstance(target, VectorOperand) and isinstance(source, VectorOperand):
        values = [
            t.temporary(t.bits(s, f"b{width // len(source.elements)}")) for s in source.elements
        ]
        for register, value in zip(target.elements, values, strict=True):
            t.write(register, value)
    elif isinstance(target, VectorOperand):
        each = width // len(target.elements)
        whole = t.temporary(t.read(source, f"b{width}"))
        for k, register in enumerate(target.elements):
            part = f"({whole} >> u{width}({each * k}))" if k else whole
            t.write(register, f"{part}.astype(u{each})")
    elif isinstance(source, VectorOperand):
        each = width // len(source.elements)
        parts = []
        for k, element in enumerate(source.elements):
            part = f"{t.read(element, f'b{each}')}.astype(u{width})"
            parts.append(f"({part} << u{width}({k * each}))" if k else part)
        t.write(target, " | ".join(parts))
    elif isinstance(source, ImmediateOperand):
        t.write(target, t.bits(source, kind))
    else:
        t.write(target, t.read(source, f"b{width}"))


def _to_space(t: Translator, row: PtxInstruction) -> None:
    """``cvta``: a generic address from one of a state space, or the other way round."""
    width = WIDTHS[row.kind]
    value = t.read(row.operands[1], f"u{width}")
    space = next((p.partition("::")[0] for p in row.parts[1:-1] if p != "to"), "")
    window = window_of(space)
    if window and width == 64:
        added = t.constant(window, np.uint64)
        value = f"({value} {'-' if 'to' in row.parts else '+'} {added})"
    t.write(row.operands[0], value)


def _convert(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] == "pack":
        _pack(t, row)
        return
    ways = [p for p in row.parts if p in _ROUNDINGS]
    kinds = [p for p in row.parts[1:] if p in WIDTHS]
    if len(kinds) != 2 or "rs" in ways or "scaled" in row.parts:
        raise Untranslatable("this conversion is not known here")
    to, source, way = kinds[0], kinds[1], ways[0] if ways else None
    if to.endswith(("x2", "x4")) or source.endswith(("x2", "x4")):
        _convert_packed(t, row, to, source, way)
    else:
        _convert_one(t, row, to, source, way)


def _convert_one(t: Translator, row: PtxInstruction, to: str, source: str, way: str | None) -> None:
    value = t.read(row.operands[1], source)
    if "ftz" in row.parts and source == "f32":
        value = f"floats.flush({value})"
    if to == "tf32":
        made = f"floats.to_tf32({value}, {way!r})"
        if "relu" in row.parts:
            made = f"floats.to_tf32(floats.relu({value}), {way!r})"
        t.write(row.operands[0], made)
        return
    if is_float(to):
        bits = _to_float(t, row, to, source, way, value)
    elif is_float(source):
        wide = "i" if to[0] == "s" else "u"
        bits = f"integers.to_integer({value}, {way!r}, {wide}{WIDTHS[to]}).view(u{WIDTHS[to]})"
    else:
        letter = "i" if to[0] == "s" else "u"
        name = f"{letter}{WIDTHS[to]}"
        made = (
            f"integers.saturate({value}, {name})"
            if "sat" in row.parts
            else (f"{value}.astype({name})")
        )
        bits = f"{made}.view(u{WIDTHS[to]})"
    t.write(row.operands[0], bits, to)


def _to_float(
    t: Translator, row: PtxInstruction, to: str, source: str, way: str | None, value: str
) -> str:
    """A conversion to floating point: bits of it."""
    if way in _TO_WHOLE:
        value = f"{_TO_WHOLE[way]}({value})"
        way = None
    if not is_float(source):
        if to == "f32":
            made = _integer_to_single(source, value, way)
        elif to == "f64" and way in ("rm", "rp", "rz") and WIDTHS[source] == 64:
            made = f"floats.long_to_double({value}, {way!r})"
        elif to == "f64":
            made = f"{value}.astype(f64)"
        else:  # through double precision, in which 32 bits are exact
            made = f"{value}.astype(f64)"
    elif to == "f32" and source == "f64":
        made = f"floats.round_single({value}, {way!r})" if way else f"{value}.astype(f32)"
    elif to == "f64":
        made = f"{value}.astype(f64)"
    else:
        made = value
    if "sat" in row.parts:
        made = f"floats.clamp01({made})"
    if "relu" in row.parts:
        made = f"floats.relu({made})"
    if "ftz" in row.parts and to == "f32":
        made = f"floats.flush({made})"
    if to == "f16":
        return f"floats.to_f16({made}, {way or 'rn'!r})"
    if to == "bf16":
        if source == "f64" or not is_float(source):
            return f"floats.double_to_bf16({made}.astype(f64))"
        return f"floats.to_bf16({made}, {way or 'rn'!r})"
    return t.result(made, to)


def _integer_to_single(source: str, value: str, way: str | None) -> str:
    """Integers of up to 64 bits to single precision; double precision holds 32 bits exactly."""
    if way in ("rm", "rp", "rz"):
        if WIDTHS[source] == 64:
            return f"floats.long_to_single({value}, {way!r})"
        return f"floats.round_single({value}.astype(f64), {way!r})"
    return f"{value}.astype(f32)"


def _halves_of(t: Translator, row: PtxInstruction, source: str) -> list[str]:
    """What is converted as a pair, as single precision, the lower one first."""
    if source == "f32":
        values = [t.read(o, "f32") for o in reversed(row.operands[1:3])]
    elif source in ("f16x2", "bf16x2"):
        bits = t.temporary(t.read(row.operands[1], "u32"))
        name = "floats.from_bf16" if source[0] == "b" else "floats.from_f16"
        values = [f"{name}(({bits} >> u32({s})).astype(u16))" for s in (0, 16)]
    elif source == "ue8m0x2":
        bits = t.temporary(t.read(row.operands[1], "u16"))
        values = [f"floats.from_scale(({bits} >> u16({s})).astype(u8))" for s in (0, 8)]
    else:
        small = source[:4]
        width, step = (8, 4) if small == "e2m1" else (16, 8)
        bits = t.temporary(t.read(row.operands[1], f"u{width}"))
        values = [
            f"floats.from_small(({bits} >> u{width}({s})).astype(u8), {small!r})" for s in (0, step)
        ]
    if "relu" in row.parts:
        values = [f"floats.relu({v})" for v in values]
    return values


def _convert_packed(
    t: Translator, row: PtxInstruction, to: str, source: str, way: str | None
) -> None:
    if to.endswith("x4") or source.endswith("x4"):
        raise Untranslatable("conversions of four at once are not known here")
    low, high = _halves_of(t, row, source)
    if to in ("f16x2", "bf16x2"):
        name = "floats.to_bf16" if to[0] == "b" else "floats.to_f16"
        if "satfinite" in row.parts:
            limit = "f32(3.3895313892515355e38)" if to[0] == "b" else "f32(65504)"
            low, high = (f"np.clip({v}, -{limit}, {limit})" for v in (low, high))
        low, high = (f"{name}({v}, {way or 'rn'!r}).astype(u32)" for v in (low, high))
        t.write(row.operands[0], f"({high} << u32(16)) | {low}")
    elif to == "ue8m0x2":
        low, high = (f"floats.to_scale({v}, {way!r}).astype(u16)" for v in (low, high))
        t.write(row.operands[0], f"({high} << u16(8)) | {low}", "u16")
    elif to[:4] in _SMALL:
        relu = "relu" in row.parts
        low, high = (f"floats.to_small({v}, {to[:4]!r}, {relu})" for v in (low, high))
        if to[:4] == "e2m1":
            t.write(row.operands[0], f"({high} << u8(4)) | {low}", "u8")
        else:
            made = f"({high}.astype(u16) << u16(8)) | {low}.astype(u16)"
            t.write(row.operands[0], made, "u16")
    else:
        raise Untranslatable("this conversion is not known here")


def _pack(t: Translator, row: PtxInstruction) -> None:
    """``cvt.pack.sat``: two integers clipped into the lowest bits, the third above them."""
    to, source = [p for p in row.parts[2:] if p in WIDTHS][:2]
    width = WIDTHS[to]
    name = ("i" if to[0] == "s" else "u") + str(width)
    if width < 8:
        raise Untranslatable("packing to less than eight bits is not known here")
    first, second = (
        f"integers.saturate({t.read(o, source)}, {name}).view(u{width}).astype(u32)"
        for o in row.operands[1:3]
    )
    made = f"({first} << u32({width})) | {second}"
    if len(row.operands) > 3:
        made = f"({t.read(row.operands[3], 'u32')} << u32({2 * width})) | {made}"
    t.write(row.operands[0], made)


HANDLERS: Mapping[str, Handler] = {"mov": _move, "cvt": _convert, "cvta": _to_space}
