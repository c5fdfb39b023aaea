"""What a division costs, as ``hints.toml`` says, against the machine code of one."""

import subprocess
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.system.toolchain import need
from tests.helpers.hint_data import THRESHOLDS
from tests.helpers.ptxview import saved, tool

TYPES = {
    "s16": "short",
    "u16": "unsigned short",
    "s32": "int",
    "u32": "unsigned",
    "s64": "long long",
    "u64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}


@pytest.mark.nvcc
def test_costs_of_divisions_are_what_ptxas_makes_of_them(tmp_path: Path) -> None:
    kernels = [
        f'extern "C" __global__ void {name}_{kind}({c}* a, {c}* b, {c}* c) '
        f"{{ int i = threadIdx.x; c[i] = a[i] {operator} b[i]; }}"
        for kind, c in TYPES.items()
        for name, operator in (("div", "/"), ("add", "+"))
    ]
    source = saved(tmp_path / "div.cu", "\n".join(kernels))
    cubin = source.with_suffix(".cubin")
    subprocess.run(
        [tool("nvcc"), "-cubin", "-arch=sm_90", source, "-o", cubin], check=True, timeout=300
    )
    printed = subprocess.run(
        [need("nvdisasm").path, "-c", cubin], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    listing = parse(Stage.SASS, printed)
    counts = {}
    calls = set()
    for function in listing.functions:
        lines = [x for x in listing.lines[function.first - 1 : function.last] if x.opcode]
        counts[function.name] = sum(1 for x in lines if x.base != "NOP")
        if any(x.base == "CALL" for x in lines):
            calls.add(function.name)
    for kind in TYPES:
        said = THRESHOLDS["slow-division"]["instructions"][kind]
        extra = counts[f"div_{kind}"] - counts[f"add_{kind}"]
        if f"div_{kind}" in calls:  # the unusual way is in a subroutine, and counted as well
            assert said <= extra, kind
        else:
            assert abs(said - extra) <= 2, (kind, extra)
