"""Known facts about a kernel beside its instructions: its parameters and how it was launched."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from inspector.analysis.tensor_maps import TensorMap
from inspector.base.model import Call, Kernel, Origin, Variant
from inspector.base.names import argument_types
from inspector.parsers.line import Function, Listing
from inspector.parsers.ptx_statement import Header, PtxVariable, read_header

T = TypeVar("T")
Size = tuple[int, int, int]

SCRATCH = ("global_scratch", "profile_scratch")
"""Pointers that Triton appends to a kernel's parameters: none up to 3.2, one in 3.3, then two."""

_SHAPED = re.compile(r"tensordesc<\w+\[([\d, ]*)\]")
_BITS = re.compile(r"[iu]([1-9]\d{0,3})\Z")


class Parameter(Struct, frozen=True):
    """One parameter of a kernel.

    ``name`` and ``type`` are as the program has them (``n_cols``, ``i32``; ``float const*``); None
    where they are not known. ``symbol`` is PTX's name, ``offset`` and ``size`` are bytes in the
    parameter space. ``value`` is that of the launch, ``multiple`` what the value (of a pointer, the
    address) was taken to be a multiple of when the kernel was compiled. ``hidden`` ones are the
    compiler's own; ``pointer`` is whether PTX or the type says that it is an address.
    ``tensor_map`` is what a tensor descriptor describes, if known.
    """

    index: int
    name: str | None = None
    type: str | None = None
    offset: int | None = None
    size: int | None = None
    symbol: str | None = None
    value: int | float | None = None
    multiple: int | None = None
    hidden: bool = False
    pointer: bool = False
    tensor_map: TensorMap | None = None

    @property
    def shown(self) -> str:
        """``n_cols: i32``, ``parameter 2: float const*``, ``parameter 3``."""
        name = self.name or f"parameter {self.index}"
        return f"{name}: {self.type}" if self.type else name


class Context(Struct, frozen=True):
    """Known facts about a kernel; None and () are "not known".

    ``grid`` counts blocks and ``block`` threads of every launch alike (x, y, z); ``max_block`` is
    the largest block that the kernel was compiled for (``.maxntid``). ``cluster`` counts blocks.
    ``language`` is ``triton`` where a block runs one of its programs, else ``cuda`` or None.
    """

    parameters: tuple[Parameter, ...] = ()
    grid: Size | None = None
    block: Size | None = None
    max_block: Size | None = None
    cluster: Size | None = None
    target: str | None = None
    shared_bytes: int | None = None
    language: str | None = None

    def parameter(self, symbol: str) -> Parameter | None:
        return next((p for p in self.parameters if p.symbol == symbol), None)

    def parameter_at(self, offset: int) -> Parameter | None:
        """The parameter that byte ``offset`` of the parameter space is in."""
        places = ((p, offset - p.offset) for p in self.parameters if p.offset is not None)
        return next((p for p, within in places if 0 <= within < (p.size or 0)), None)


def context_of(
    kernel: Kernel,
    variant: Variant,
    listing: Listing | None = None,
    function: Function | None = None,
    call: Call | None = None,
) -> Context:
    """The context of a variant; ``listing`` and ``function`` are its PTX, ``call`` one launch.

    Without ``call``, what all of the variant's launches have in common. Names are given to
    parameters only where their number and their types are those that PTX declares.
    """
    if listing is not None and function is None:
        function = next((f for f in listing.functions if f.name == variant.symbol), None)
    header = read_header(listing, function) if listing is not None and function else Header()
    language = "cuda" if kernel.origin is Origin.NVCC else None
    if kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        language = "triton"
        named = triton_parameters(header.parameters, variant.signature, variant.specialization)
    else:
        named = cuda_parameters(header.parameters, kernel.demangled)
    calls = (call,) if call is not None else variant.calls
    return Context(
        parameters=_with_values(named, calls),
        grid=_common([c.grid for c in calls]),
        block=header.block or _common([c.block for c in calls]),
        max_block=header.block_limit,
        cluster=header.cluster,
        target=variant.target,
        shared_bytes=_common([c.shared_bytes for c in calls]),
        language=language,
    )


def with_tensor_maps(context: Context, tensor_maps: Sequence[TensorMap]) -> Context:
    """A context whose parameters have the tensor maps of their names."""
    by_name = {tensor_map.argument: tensor_map for tensor_map in tensor_maps}
    parameters = tuple(
        replace(p, tensor_map=by_name.get(p.name or f"parameter {p.index}"))
        for p in context.parameters
    )
    return replace(context, parameters=parameters)


def before_launch(context: Context, listing: Listing, function: Function) -> Context:
    return replace(
        context,
        parameters=tuple(replace(p, value=None) for p in context.parameters),
        grid=None,
        block=read_header(listing, function).block,
        shared_bytes=None,
    )


def of_header(listing: Listing, function: Function) -> Context:
    """What PTX itself says of one of its functions."""
    header = read_header(listing, function)
    return Context(
        parameters=_unnamed(header.parameters),
        block=header.block,
        max_block=header.block_limit,
        cluster=header.cluster,
    )


def triton_parameters(
    declared: Sequence[PtxVariable],
    signature: Mapping[str, str],
    specialization: Mapping[str, object] | None = None,
) -> tuple[Parameter, ...]:
    """The parameters of a Triton kernel: its arguments that are no constants, then its scratch.

    What is compiled in as a constant is no parameter: ``constexpr`` in the signature, ``constant``
    in the specialisation. Where that does not fit what PTX declares no names are given. Without
    ``declared`` (no PTX at hand) the names come without offsets and scratch.
    """
    arguments = _arguments(signature, specialization or {})
    if not declared:
        return tuple(
            Parameter(index, argument.name, argument.type, multiple=argument.multiple)
            for index, argument in enumerate(arguments)
        )
    argument_count = len(arguments)
    scratch_count = max(0, len(declared) - argument_count)
    arguments += [_Argument(name, "*i8") for name in SCRATCH[:scratch_count]]
    if not signature or len(declared) != len(arguments):
        return _unnamed(declared)
    parameters = []
    for parameter, argument, variable in zip(_unnamed(declared), arguments, declared, strict=True):
        if not _agrees(argument.type, variable):
            return _unnamed(declared)
        named = replace(
            parameter,
            name=argument.name,
            type=argument.type,
            multiple=argument.multiple,
            hidden=parameter.index >= argument_count,
            pointer=argument.type.startswith("*"),
        )
        parameters.append(named)
    return tuple(parameters)


class _Argument(NamedTuple):
    """An argument of a Triton kernel; ``multiple`` is what its value is known to be one of."""

    name: str
    type: str
    multiple: int | None = None


def _arguments(
    signature: Mapping[str, str], specialization: Mapping[str, object]
) -> list[_Argument]:
    """The arguments that are no constants."""
    arguments: list[_Argument] = []
    for name, type_ in signature.items():
        facts = _facts(specialization.get(name))
        if type_ == "constexpr" or "constant" in facts:
            continue
        multiple = facts.get("tt.divisibility")
        known_multiple = multiple if isinstance(multiple, int) else None
        arguments += _expanded(_Argument(name, type_, known_multiple))
    return arguments


def cuda_parameters(declared: Sequence[PtxVariable], demangled: str) -> tuple[Parameter, ...]:
    """The parameters of a C++ kernel, with the types of ``f(float const*, int)`` where they fit."""
    types = argument_types(demangled)
    if not declared:
        return tuple(Parameter(index, type=type_) for index, type_ in enumerate(types))
    if len(types) != len(declared):
        return _unnamed(declared)
    parameters = []
    for parameter, type_ in zip(_unnamed(declared), types, strict=True):
        is_pointer = type_.endswith(("*", "&"))
        if is_pointer and parameter.size != 8:
            return _unnamed(declared)
        parameters.append(replace(parameter, type=type_, pointer=is_pointer))
    return tuple(parameters)


def _unnamed(declared: Sequence[PtxVariable]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(i, offset=d.offset, size=d.size, symbol=d.name, pointer=d.pointer)
        for i, d in enumerate(declared)
    )


def _facts(value: object) -> dict[str, object]:
    """``[["tt.divisibility", 16]]`` as a mapping."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return {}
    return {
        v[0]: v[1]
        for v in value
        if isinstance(v, Sequence) and len(v) == 2 and isinstance(v[0], str)
    }


def _expanded(argument: _Argument) -> list[_Argument]:
    """A tensor descriptor is passed with its shape and its strides."""
    shaped = _SHAPED.match(argument.type)
    if shaped is None:
        return [argument]
    axes = range(len(shaped[1].split(",")))
    shape = [_Argument(f"{argument.name}.shape[{axis}]", "i32") for axis in axes]
    strides = [_Argument(f"{argument.name}.strides[{axis}]", "i64") for axis in axes]
    return [argument, *shape, *strides]


def _agrees(type_: str, declared: PtxVariable) -> bool:
    if type_.startswith("*"):
        return declared.size == 8 and declared.kind in ("u64", "b64")
    if type_.startswith("tensordesc") or type_ == "nvTmaDesc":
        return declared.size == 128
    if integer := _BITS.match(type_):
        return declared.size == max(1, int(integer[1]) // 8) and not declared.pointer
    if type_.startswith(("fp", "bf")):
        return not declared.pointer and declared.size in (1, 2, 4, 8)
    return False


def _common(values: Sequence[T | None]) -> T | None:
    return values[0] if values and all(v == values[0] for v in values) else None


def _argument_values(call: Call) -> dict[str, object]:
    return {argument.name: argument.value for argument in call.arguments}


def _with_values(parameters: tuple[Parameter, ...], calls: Sequence[Call]) -> tuple[Parameter, ...]:
    """The values that scalars had in every call, found by their names."""
    values_of_calls = [_argument_values(call) for call in calls]
    with_values: list[Parameter] = []
    for parameter in parameters:
        if parameter.name and not parameter.hidden:
            value = _common([values.get(parameter.name) for values in values_of_calls])
            if isinstance(value, int | float):
                parameter = replace(parameter, value=value)
        with_values.append(parameter)
    return tuple(with_values)
