"""``jax.jit`` and Pallas: XLA makes all kernels of a module at once, and names them by its HLO.

Each kernel has the module's StableHLO, the HLO that XLA made of it with its fusions, and the line
that the HLO names. A kernel of Pallas that is lowered to Triton has its Triton IR. LLVM IR and PTX
XLA returns nowhere: they are taken from its dump, where the program's XLA_FLAGS ask for one.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from .. import private_names
from ..hooks import argument, arguments, per_recording, succeeded
from ..writer import file_blob
from .made import record, tell

BY = "JAX (XLA)"
FLAGS = "--xla_dump_to=FOLDER --xla_dump_emitter_re=.*"
LACKS = dict.fromkeys(("llir", "ptx"), f"XLA returns none; XLA_FLAGS='{FLAGS}' has it write one")
KINDS = ("fusion", "custom-call", "copy", "sort")
"""Instructions of HLO that become kernels."""
MAX_KERNELS = 500
_MADE = re.compile(r"^ *(?:ROOT )?%([\w.-]{1,400}) = [^=\n]*?\b(\w[\w-]*)\(([^\n]*)$", re.MULTILINE)
_DUMP = re.compile(r"--xla_dump_to=(\S+)")
_FRAME = re.compile(r"stack_frame_id=(\d{1,9})")
_PLACE = re.compile(r'source_file="([^"]{1,4096})"[^\n]*?source_line=(\d{1,9})')
_TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d[^\n]*\n)*)", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\d{1,9})")
_lowered: dict[str, dict[str, Any]] = per_recording({})
"""Pallas' kernels by name, until XLA has compiled them."""


def attach(module: Any) -> None:
    """``jax._src.compiler``: compiles a module, or has it in its cache."""

    def compiled(given: tuple[Any, Any], executable: Any) -> None:
        backend, computation = given
        if str(getattr(backend, "platform", "")) in ("gpu", "cuda"):
            _tell(computation, executable)

    asked = arguments("backend", "computation")
    private_names.wrap("jax._src.compiler:compile_or_get_cached", asked, succeeded(compiled))


def attach_pallas(module: Any) -> None:
    """``jax._src.pallas.triton.lowering``: makes Triton's IR of a kernel's jaxpr."""

    def lowered(jaxpr: Any, result: Any) -> None:
        info = jaxpr.debug_info
        if len(_lowered) < MAX_KERNELS:
            name = re.sub(r"\W", "_", info.func_name)
            text = result.module.operation.get_asm(enable_debug_info=True)
            _lowered[name] = {"ttir": text, **_at(info.func_filename, info.func_lineno)}

    name = "jax._src.pallas.triton.lowering:lower_jaxpr_to_triton_module"
    private_names.wrap(name, argument(0, "jaxpr"), succeeded(lowered))


def _at(path: str | None, line: int | None) -> dict[str, Any]:
    if not path or not line:
        return {}
    return {"path": path, "lines": [line, line], "source": file_blob(path)}


def _tell(computation: Any, executable: Any) -> None:
    name = str(computation.operation.attributes["sym_name"]).strip('"')
    ir = computation.operation.get_asm(enable_debug_info=True, large_elements_limit=16)
    hlo = "\n".join(one.to_string() for one in executable.hlo_modules())
    said = {"ir": "StableHLO, as JAX gives it to XLA", "output_code": "HLO, as XLA optimised it"}
    texts = {"ir": ir, "output_code": hlo, "said": said, "lacks": LACKS}
    places, dumped = _places(hlo), _dumped(name)
    of_pallas = {n: _lowered.pop(n) for n in list(_lowered) if n in ir}
    for symbol, of in list({**places, **of_pallas}.items())[:MAX_KERNELS]:
        entry = f".entry {symbol}(".encode()
        code = [one for one in dumped if entry in one["ptx"]]  # of several the newest
        more = code[-1] if code else {}
        tell({"by": BY, "name": symbol, "symbol": symbol, **texts, **of, **more})
    if not places and not of_pallas:
        record(BY, [f"{name} (all of its module)"], **texts)


def _dumped(name: str) -> list[dict[str, bytes]]:
    """What XLA has just written of a module, where the program's own XLA_FLAGS have it do so."""
    if (flag := _DUMP.search(os.environ.get("XLA_FLAGS", ""))) is None:
        return []
    pattern = os.path.join(glob.escape(flag[1]), f"*.{glob.escape(name)}.*.ptx")
    out = []
    for path in sorted(glob.glob(pattern), key=os.path.getmtime)[-MAX_KERNELS:]:
        files = {"ptx": path, "llir": f"{path.removesuffix('ptx')}ir-with-opt.ll"}
        out.append({stage: _read(file) for stage, file in files.items() if os.path.exists(file)})
    return out


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _places(hlo: str) -> dict[str, dict[str, Any]]:
    """The instructions of a module that become kernels, by the kernel's name, with their line."""
    tables = {name: rows.splitlines() for name, rows in _TABLE.findall(hlo)}
    files = [row.partition('"')[2].rstrip('"') for row in tables.get("FileNames", ())]
    spots, frames = (
        [{key: int(n) for key, n in _FIELD.findall(row)} for row in tables.get(name, ())]
        for name in ("FileLocations", "StackFrames")
    )
    out: dict[str, dict[str, Any]] = {}
    for name, kind, rest in _MADE.findall(hlo):
        if kind not in KINDS:
            continue
        path, line = "", 0
        if found := _PLACE.search(rest):
            path, line = found[1], int(found[2])
        elif (found := _FRAME.search(rest)) and 0 < int(found[1]) <= len(frames):
            spot = spots[frames[int(found[1]) - 1]["file_location_id"] - 1]
            path, line = files[spot["file_name_id"] - 1], spot["line"]
        out.setdefault(re.sub(r"\W", "_", name), _at(path, line))
    return out
