"""Small kernels in PTX with a fault or a cost that is known, and their inputs as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

HEAD = ".version 8.3\n.target sm_80\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 x", before: str = "") -> str:
    """A kernel ``k``; each thread has its number in %r1 and, in %rd1, x plus four times it."""
    return f"""{HEAD}{before}
.visible .entry k({parameters})
{{
    .reg .pred %p<9>;
    .reg .b32 %r<30>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd0, [x];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.s32 %r3, %r0, %r2, %r1;
    mul.wide.s32 %rd2, %r3, 4;
    add.s64 %rd1, %rd0, %rd2;
{body}
    ret;
}}
"""


def written(folder: Path, text: str, **arrays: object) -> tuple[str, str]:
    """The paths of a kernel's file and of its inputs'."""
    ptx, inputs = folder / "k.ptx", folder / "inputs.npz"
    ptx.write_text(text)
    given: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez(inputs, **given)
    return str(ptx), str(inputs)
