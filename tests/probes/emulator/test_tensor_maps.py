"""The emulated device's ``cuTensorMapEncodeTiled`` against the driver's, bytes and errors."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector import probes
from inspector.probes.emulator import extension
from tests.helpers.tools import lack
from tests.parsers.test_tensor_map import ROWS

HEADERS = Path(probes.__file__).parent / "emulator" / "include"
SOURCE = """
#include "ptxview_tensor_map.h"
extern "C" int encode(void* map, int type, unsigned rank, uint64_t address, const cuuint64_t* dims,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                      int interleave, int swizzle, int promotion, int fill) {
  return ptxview_cuda::encode_tiled(
      (CUtensorMap*)map, (CUtensorMapDataType)type, rank, (void*)address, dims, strides, box, steps,
      (CUtensorMapInterleave)interleave, (CUtensorMapSwizzle)swizzle,
      (CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)fill);
}
"""
ALIGNMENT = 64


@pytest.fixture(scope="module")
def encode(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, object]], object]:
    folder = tmp_path_factory.mktemp("tensor_map")
    (folder / "encode.cpp").write_text(SOURCE)
    toolkit = f"{extension.homes()[0]}/include"
    command = ["g++", "-shared", "-fPIC", "-I", str(HEADERS), "-I", toolkit]
    subprocess.run([*command, "-o", "encode.so", "encode.cpp"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "encode.so"))

    def encoded(row: dict[str, object]) -> object:
        dims = [int(n) for n in row["dims"]]  # type: ignore[attr-defined]
        sizes = [
            (ctypes.c_uint64 * len(dims))(*dims),
            (ctypes.c_uint64 * max(1, len(dims) - 1))(*row["strides"]),  # type: ignore[misc]
            (ctypes.c_uint32 * len(dims))(*row["box"]),  # type: ignore[misc]
            (ctypes.c_uint32 * len(dims))(*row["steps"]),  # type: ignore[misc]
        ]
        modes = [row[name] for name in ("interleave", "swizzle", "promotion", "fill")]
        memory = ctypes.create_string_buffer(128 + ALIGNMENT)
        place = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
        address = ctypes.c_uint64(int(str(row["address"])))
        map_at = ctypes.c_void_p(place)
        error = library.encode(map_at, row["type"], len(dims), address, *sizes, *modes)
        return error or ctypes.string_at(place, 128).hex()

    return encoded


@pytest.mark.skipif(not extension.homes(), reason=lack("nvcc"))
def test_maps_and_refusals_are_the_drivers(
    encode: Callable[[dict[str, object]], object],
) -> None:
    for row in ROWS:
        assert encode(row) == (row["error"] or row["map"]), row
