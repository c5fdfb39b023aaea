"""Parts of torch's CUDA that a CPU build lacks: supplied where they compute, else refused by name.

The names are those that this version of torch declares in ``torch/_C/__init__.pyi``, so that a
program finds what a CUDA build has, and each function that no part supplies raises one sentence.
"""

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import say

LACKED = (
    "the emulated device has no {}; run this part of the program on a GPU "
    "(docs/guide/without-a-gpu.md#not-emulated)"
)
DECLARED = re.compile(r"^def (_(?:cuda|cudnn|nccl|gds|graph_pool)\w+)\(", re.MULTILINE)
"""``def _cuda_getCurrentBlasHandle() -> _int: ...``"""
UNDECLARED = ("_cuda_record_untuned_enable", "_cuda_tunableop_get_rotating_buffer_size")
"""Functions that torch.cuda calls and no stub declares."""
OTHER_DEVICES = re.compile("xpu|mtia|mps", re.IGNORECASE)
PLACEHOLDER = "_dummy_type"
"""The function in torch._utils that makes a class in place of one that a CPU build lacks."""


def refusal(name: str) -> Any:
    """A function that raises: the emulated device has no such thing."""
    return say.refusing(NotImplementedError, LACKED.format(name))


def refuse_remaining(torch: Any) -> None:
    """Have every function and class of torch's CUDA that is still missing refuse by its name."""
    low = torch._C
    stub = Path(torch.__file__).parent / "_C" / "__init__.pyi"
    text = stub.read_text(encoding="utf-8") if stub.exists() else ""
    for name in (*DECLARED.findall(text), *UNDECLARED):
        present = vars(low).get(name)
        if present is None or _is_placeholder(present) or name.startswith("_gds"):
            setattr(low, name, refusal(f"torch._C.{name}"))
    for module in (low, torch.cuda, torch.cuda.memory, torch.cuda.graphs):
        for name, value in vars(module).items():
            if _is_placeholder(value) and not OTHER_DEVICES.search(name):
                value.__new__ = _refusing_class
    torch.cuda.graphs._graph_pool_handle = low._graph_pool_handle
    torch.cuda.nccl.is_available = _no_nccl  # the original looks whether a function is declared


def _no_nccl(tensors: Any) -> bool:
    return False


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, type) and (
        PLACEHOLDER in str(getattr(vars(value).get("__init__"), "__qualname__", ""))
    )


def _refusing_class(cls: type, *args: Any, **kwargs: Any) -> Any:
    refusal(f"{cls.__module__}.{cls.__qualname__}")()


def legacy_types(torch: Any) -> None:
    """Have ``torch.cuda.FloatTensor`` and the like make tensors; a CPU build's refuse to."""
    sparse = refusal("sparse tensors")
    for module in (torch.cuda, torch.cuda.sparse):
        for name, kind in list(vars(module).items()):
            if type(kind).__name__ == "tensortype":
                # torch looks types up by this name: tensor.type(torch.cuda.FloatTensor)
                full = f"{module.__name__}.{name}"
                legacy_type = _LegacyType(full, (), {"__module__": module.__name__})
                legacy_type.kind = kind
                legacy_type.on_host = (
                    getattr(torch, name, sparse) if module is torch.cuda else sparse
                )
                setattr(module, name, legacy_type)
    original = torch.set_default_tensor_type

    @functools.wraps(original)
    def set_default(kind: Any) -> None:
        if isinstance(kind, str) and kind.startswith("torch.cuda."):
            kind = getattr(torch.cuda, kind.rpartition(".")[2], kind)
        if isinstance(kind, _LegacyType):
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")
        else:
            original(kind)

    torch.set_default_tensor_type = set_default


class _LegacyType(type):
    kind: Any
    on_host: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device", None)
        on_host = [x.cpu() if getattr(x, "is_cuda", False) else x for x in args]
        return cls.on_host(*on_host, **kwargs).cuda()

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kind)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.kind, name)


# -- several devices -------------------------------------------------------------------------------


def communication(torch: Any) -> dict[str, Any]:
    """The functions of ``torch._C`` that copy between devices, for DataParallel."""

    def on_device(tensor: Any, index: int) -> Any:
        return tensor.to(torch.device("cuda", index))

    def broadcast(tensor: Any, devices: Sequence[int]) -> list[Any]:
        return [on_device(tensor, index) for index in devices]

    def all_on_device(tensors: Sequence[Any], index: int) -> list[Any]:
        return [on_device(tensor, index) for tensor in tensors]

    def broadcast_out(tensor: Any, outputs: Sequence[Any]) -> Sequence[Any]:
        for output in outputs:
            output.copy_(tensor)
        return outputs

    def broadcast_coalesced(
        tensors: Sequence[Any], devices: Sequence[int], buffer_size: int = 0
    ) -> list[list[Any]]:
        return [all_on_device(tensors, index) for index in devices]

    def scatter(
        tensor: Any, devices: Sequence[int], sizes: Any = None, dim: int = 0, streams: Any = None
    ) -> list[Any]:
        chunks = tensor.split(list(sizes), dim) if sizes else tensor.chunk(len(devices), dim)
        return list(map(on_device, chunks, devices))

    def scatter_out(
        tensor: Any, outputs: Sequence[Any], dim: int = 0, streams: Any = None
    ) -> Sequence[Any]:
        sizes = [output.size(dim) for output in outputs]
        for output, chunk in zip(outputs, tensor.split(sizes, dim), strict=True):
            output.copy_(chunk)
        return outputs

    def gather(tensors: Sequence[Any], dim: int, destination: int | None = None) -> Any:
        place = torch.device("cpu") if destination == -1 else torch.device("cuda", destination)
        return torch.cat([tensor.to(place) for tensor in tensors], dim)

    def gather_out(tensors: Sequence[Any], output: Any, dim: int) -> Any:
        return output.copy_(torch.cat([tensor.to(output.device) for tensor in tensors], dim))

    return {
        "_broadcast": broadcast,
        "_broadcast_out": broadcast_out,
        "_broadcast_coalesced": broadcast_coalesced,
        "_scatter": scatter,
        "_scatter_out": scatter_out,
        "_gather": gather,
        "_gather_out": gather_out,
    }


# -- NCCL ------------------------------------------------------------------------------------------


def attach_groups(module: Any) -> None:
    """Refuse process groups over NCCL by a sentence of our own; gloo has the collectives."""
    original = module._new_process_group_helper

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            if "NCCL built in" not in str(error):
                raise
            text = 'the emulated device has no NCCL; init_process_group("gloo") has the collectives'
            raise RuntimeError(f"ptxview: {text}") from None

    module._new_process_group_helper = make
