# mypy: ignore-errors
"""What CUDA C++ asks of the runtime, from two sources. Prints what a kernel prints, then "done"."""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

FOLDER = Path(__file__).parent / "cuda"


def load_module():
    """Build the sources, once for all programs that have the same cache."""
    sources = [str(FOLDER / name) for name in ("bound.cpp", "guarded.cpp", "many.cu", "others.cu")]
    return load("ptxview_test_runtime", sources, ["-DGUARDED"], with_cuda=True)


def load_without_torch():
    """Build the sources but for the one that includes torch's headers, which take long."""
    sources = [str(FOLDER / name) for name in ("bound.cpp", "many.cu", "others.cu")]
    return load("ptxview_test_bare_runtime", sources, with_cuda=True)


def raised(function, *given):
    """What it says that it cannot."""
    try:
        function(*given)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was raised")


if __name__ == "__main__":
    module = load_module()

    def zeros(n, dtype=torch.float32):
        return torch.zeros(n, dtype=dtype, device="cuda")

    x = zeros(4)
    module.hidden(x.data_ptr())
    assert x.tolist() == [1, 4, 9, 16], x
    module.set_table(-5.0, 2)
    module.hidden(x.data_ptr())
    assert x.tolist() == [1, 4, 25, 16], x
    x = zeros(32)
    assert module.of_file(x.data_ptr(), 3) == 3
    assert module.of_file(x.data_ptr(), 32) == 35
    assert x.tolist() == [7] * 32, x
    x = zeros(32, torch.int32)
    module.plain(x.data_ptr())
    assert x.tolist() == list(range(32)), x
    a, b = torch.arange(32.0, device="cuda"), zeros(32)
    module.by_value(b.data_ptr(), a.data_ptr())
    torch.testing.assert_close(b, a * 2.5 + 1.5)
    x = zeros(64, torch.float64)
    module.packed(x.data_ptr())
    assert x[:8].tolist() == [10.5 + i for i in range(8)], x
    assert x.view(torch.float32)[16:24].tolist() == [1.0 + i for i in range(8)], x
    x = torch.arange(16, dtype=torch.float16, device="cuda")
    module.halves(x.data_ptr())
    assert x.tolist() == [1.0 + i for i in range(16)], x
    host = torch.arange(64, dtype=torch.int32)
    module.adds(host.data_ptr(), 64)
    assert host.tolist() == [i + 5 for i in range(32)] + [5] * 32, host
    pinned = torch.zeros(8, dtype=torch.int32).pin_memory()
    module.pinned(pinned.data_ptr())
    assert pinned.tolist() == [2] * 8, pinned
    x = zeros(8, torch.int32)
    module.apply(x.data_ptr(), 3, 100)
    assert x.tolist() == [100 + 3 * i for i in range(8)], x
    assert module.managed(x.data_ptr()) == 1
    assert x[0].item() == 42
    module.says()

    # CUDA's errors by their numbers (driver_types.h): 1 invalid argument, 701 too many resources
    # requested for launch; which it is, an H100 says.
    heavy = torch.full((112 * 1024,), 3.0, device="cuda")
    assert module.refused(heavy.data_ptr(), 0, 1024, 0) == 701
    assert heavy.eq(3).all(), "what is refused writes nothing"
    x = torch.arange(64.0, device="cuda")
    assert module.refused(x.data_ptr(), 1, 65, 0) == 1
    assert module.refused(x.data_ptr(), 1, 64, 0) == 0
    x = torch.full((32,), 2.0, device="cuda")
    # 4096 of the 48 KiB that no attribute is needed for are its own; 227 KiB there are at most.
    assert module.refused(x.data_ptr(), 2, 32, 45056) == 0
    assert module.refused(x.data_ptr(), 2, 32, 45060) == 1
    # The pointer cast by hand, which has lost its type: it is that kernel's all the same.
    assert module.refused(x.data_ptr(), 5, 32, 227 * 1024 + 1) == 1
    assert module.refused(x.data_ptr(), 5, 32, 100 * 1024) == 0
    assert module.refused(x.data_ptr(), 2, 32, 100 * 1024) == 0
    assert module.refused(x.data_ptr(), 2, 32, 100 * 1024 + 4) == 1
    assert module.refused(x.data_ptr(), 4, 32, 49153) == 1, "another's pointer was given it"
    assert module.refused(x.data_ptr(), 3, 32, 227 * 1024 + 1) == 1
    assert module.refused(x.data_ptr(), 3, 32, 223 * 1024) == 0
    assert module.refused(x.data_ptr(), 2, 32, 223 * 1024) == 0
    assert module.refused(x.data_ptr(), 2, 32, 223 * 1024 + 4) == 1
    assert module.refused(x.data_ptr(), 2, 0, 0) == 1
    assert module.refused(x.data_ptr(), 4, 32, 49153) == 1, "it is another that asked for more"
    assert x.tolist() == [16.0] * 32, "three launches of those were made"

    # An SM's 64 warps hold three blocks of 640 threads, and four of 512, which is best.
    told = [module.limit(which) for which in range(12)]
    assert told[:5] == [132, 65535, 131, 232448, 101], told
    assert told[5:] == [2048, 640, 49152 - 2048, 3, 0, 5, 4 * 132], told
    assert module.guarded(0) == 132 * 32
    assert module.guarded(1) == 1
    print(raised(module.guarded, 2))
    print(raised(module.limit, 12))

    short = zeros(30)
    print(raised(module.past, short.data_ptr(), 32))
    print(raised(module.past, short.data_ptr(), 2048))
    print(raised(module.pinned, host.data_ptr()))
    print(raised(module.cooperative, x.data_ptr()))
    x = zeros(128, torch.int32)
    module.paired(x.data_ptr())
    others = torch.tensor([100, 0, 300, 200], dtype=torch.int32)
    assert torch.equal(
        x.cpu().reshape(4, 32), others[:, None] + torch.arange(32, dtype=torch.int32)
    )
    print("done")
