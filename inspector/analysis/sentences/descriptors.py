"""Descriptors of tensor-core instructions in words, where their bits are known.

A descriptor is a form, as ``Values`` derives it; a field of it is known where its own bits are
constant. The fields are those of the table ptx_descriptors.toml.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from inspector.analysis.sentences import forms
from inspector.analysis.sentences.forms import Atom, LinearForm
from inspector.base.units import plural

FormText = Callable[[LinearForm], str]
"""An address as a formula; "" where it says nothing of what the program names."""

ATOM_BYTES = 16
"""Addresses and offsets in a descriptor of a matrix are in multiples of it."""
ADDRESS_BITS = 18
ADDRESSES = 1 << ADDRESS_BITS
"""Addresses in shared memory are below it."""
MATRIX_CONSTANT = 0b001
"""What a field of every descriptor of ``tcgen05`` holds."""


def field(descriptor: LinearForm, place: tuple[int, int]) -> LinearForm:
    """The bits of a descriptor from the lowest one on, by that and their number."""
    first, count = place
    return forms.divided(forms.modulo(descriptor, 1 << first + count), 1 << first)


class Fields:
    """The fields of one descriptor by name; ``places`` is their table."""

    def __init__(self, form: LinearForm, places: Mapping[str, Any]) -> None:
        self.form = form
        self.places = places

    def known(self, name: str) -> int | None:
        """A field's value; None if its bits are not constant, or the descriptor lacks it."""
        place = self.places.get(name)
        return None if place is None else field(self.form, place).number

    def word(self, name: str, words: Mapping[str, str]) -> str | None:
        """What a table calls a field's value: a value that it lacks by number, None if unknown."""
        value = self.known(name)
        return None if value is None else words.get(str(value), f"type {value}")


# -- matrices in shared memory ----------------------------------------------------------------


def matrix(descriptor: LinearForm, table: Mapping[str, Any], address_text: FormText) -> str:
    """``at smem + 1024, 128-byte swizzle, stride 1,024 bytes``; "" if nothing is known."""
    fields = Fields(descriptor, table)
    swizzle = fields.known("swizzle")
    leading = fields.known("leading")
    stride = fields.known("stride")
    base = fields.known("base")
    constant = fields.known("constant")
    parts: list[str] = []
    start = address_text(shared_address(field(fields.form, table["start"])))
    if start:
        parts.append(f"at {start}")
    if swizzle is not None:
        parts.append(table["swizzles"].get(str(swizzle), f"invalid swizzle {swizzle}"))
    if leading and fields.known("absolute"):
        parts.append(f"next part at byte {leading * ATOM_BYTES:,}")
    elif leading:
        parts.append(f"leading offset {plural(leading * ATOM_BYTES, 'byte')}")
    if stride is not None:
        parts.append(f"stride offset {plural(stride * ATOM_BYTES, 'byte')}")
    if base:
        parts.append(f"base offset {base}")
    if constant not in (None, MATRIX_CONSTANT):
        parts.append(f"bits 46 to 48 are {constant}, which must be {MATRIX_CONSTANT}")
    return ", ".join(parts)


def shared_address(start: LinearForm) -> LinearForm:
    """The address in shared memory whose multiple of 16 is a form, the way back from
    ``(address & 0x3ffff) >> 4``."""
    return _address(_scaled_up(start, ATOM_BYTES))


def _scaled_up(value: LinearForm, scale: int) -> LinearForm:
    """A form times a number, modulo the size of an address; quotients without remainder are
    undone."""
    product = forms.constant(value.constant * scale)
    for atom, factor in value.terms:
        product = forms.add(product, _term_scaled_up(atom, factor * scale))
    return product


def _term_scaled_up(atom: Atom, scale: int) -> LinearForm:
    if atom.op == "remainder" and atom.args[1].constant * scale % ADDRESSES == 0:
        return _scaled_up(atom.args[0], scale)
    if atom.op == "quotient":
        divisor = atom.args[1].constant
        inner = atom.args[0].atom
        if inner is not None and inner.op == "remainder":
            modulus = inner.args[1].constant
            if modulus % divisor == 0:  # ⌊(a mod 64) / 16⌋ is ⌊a / 16⌋ mod 4
                quotient = forms.divided(inner.args[0], divisor)
                return _scaled_up(forms.modulo(quotient, modulus // divisor), scale)
        dividend = _address(atom.args[0])
        if dividend.multiple % divisor == 0 and scale % divisor == 0:
            return forms.scale(dividend, scale // divisor)
    return forms.form([(atom, scale)])


def _address(value: LinearForm) -> LinearForm:
    """The simplest form of an address in shared memory, whose higher bits are always 0."""
    value = forms.reduced(value, ADDRESS_BITS)
    atom = value.atom
    is_masked = atom is not None and atom.op == "remainder"
    if atom is not None and is_masked and atom.args[1].constant % ADDRESSES == 0:
        return _address(atom.args[0])
    return value


# -- instructions -----------------------------------------------------------------------------


def instruction(descriptor: LinearForm, kind: str, tables: Mapping[str, Any]) -> str:
    """``128×16 f16 by 16×256 f16, sums of 128×256 in f32, B transposed``; "" if nothing is known.

    ``kind`` is that of the opcode (``mxf4nvf4``), ``tables`` are those of ptx_descriptors.toml.
    """
    table = tables.get("instruction", {}).get(kind)
    if table is None:
        return ""
    fields = Fields(descriptor, tables["fields"][table["fields"]])
    product = _product(fields, table)
    parts = ["" if product is None else product.text()]
    parts.append(_marked(fields, "negate", "negated"))
    parts.append(_marked(fields, "transpose", "transposed"))
    if fields.known("saturate"):
        parts.append("sums saturated")
    if fields.known("sparsity") and fields.known("selector"):
        parts.append(f"sparsity selector {fields.known('selector')}")
    parts.append(_scales(fields, table))
    shift = fields.known("shift")
    if shift:
        parts.append(f"B shifted by at most {4 << shift} columns")
    return ", ".join(filter(None, parts))


class DescribedProduct(Struct, frozen=True):
    """A matrix product of an instruction descriptor: A of m×k by B of k×n, and their types."""

    m: int
    n: int
    k: int
    a: str
    b: str
    sums: str

    def text(self) -> str:
        a = f"{self.m}×{self.k} {self.a}"
        b = f"{self.k}×{self.n} {self.b}"
        return f"{a} by {b}, sums of {self.m}×{self.n} in {self.sums}"


def described_product(
    descriptor: LinearForm, kind: str, tables: Mapping[str, Any]
) -> DescribedProduct | None:
    """The product of an instruction descriptor; None unless its shape and types are known."""
    table = tables.get("instruction", {}).get(kind)
    if table is None:
        return None
    return _product(Fields(descriptor, tables["fields"][table["fields"]]), table)


def _product(fields: Fields, table: Mapping[str, Any]) -> DescribedProduct | None:
    m = fields.known("m")
    n = fields.known("n")
    sparsity = fields.known("sparsity")
    a = fields.word("a", table["a"])
    b = fields.word("b", table["a"])
    d = fields.word("d", table["d"]) if "d" in table else "f32"
    if m is None or n is None or sparsity is None or a is None or b is None or d is None:
        return None
    depth = table["sparse" if sparsity else "dense"]
    if fields.known("dense96"):
        depth = 96
    return DescribedProduct(m << 4, n << 3, depth, a, b, d)


def instruction_kind(parts: Sequence[str]) -> str:
    """``f16`` of the qualifier ``kind::f16`` of an opcode; "" without one."""
    named = next((part for part in parts if part.startswith("kind::")), "")
    return named.removeprefix("kind::")


def descriptor_place(parts: Sequence[str]) -> int:
    """Which operand of ``tcgen05.mma`` is the instruction descriptor."""
    return 4 if "sp" in parts else 3


def _marked(fields: Fields, name: str, word: str) -> str:
    """``A and B transposed``: the matrices whose bit is set."""
    matrices = [letter.upper() for letter in "ab" if fields.known(f"{name}_{letter}")]
    return f"{' and '.join(matrices)} {word}" if matrices else ""


def _scales(fields: Fields, table: Mapping[str, Any]) -> str:
    if "scale" not in table:
        return ""
    kind = fields.word("scale", table["scale"])
    texts = [] if kind is None else [f"scales of {kind}"]
    for letter in "ab":
        identity = fields.known(f"scale_id_{letter}")
        if identity:
            texts.append(f"{letter.upper()}'s from byte {identity}")
    return ", ".join(texts)


# -- tensor memory ----------------------------------------------------------------------------

LANE_UNIT = 1 << 16
"""An address in tensor memory has the lane in its upper half, the column in its lower one."""


def lane_and_column(offset: LinearForm) -> tuple[LinearForm, LinearForm]:
    """The lane and the column of an offset from where an allocation begins."""
    return forms.divided(offset, LANE_UNIT), forms.modulo(offset, LANE_UNIT)
