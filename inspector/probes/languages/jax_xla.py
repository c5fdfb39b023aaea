"""``jax.jit`` and Pallas: XLA makes all kernels of a module at once, and names them by its HLO.

Each kernel has the module's StableHLO, the HLO that XLA made of it with its fusions, and the line
that the HLO names. A kernel of Pallas that is lowered to Triton has its Triton IR. LLVM IR and PTX
XLA returns nowhere: they are taken from its dump, where the program's XLA_FLAGS ask for one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import private_names
from ..hooks import argument, arguments, per_recording, succeeded
from ..writer import blob
from .emit import MAX_KERNELS, record, source_place, write_kernel

BY = "JAX (XLA)"
FLAGS = "--xla_dump_to=FOLDER --xla_dump_emitter_re=.*"
LACKS = dict.fromkeys(("llir", "ptx"), f"XLA returns none; XLA_FLAGS='{FLAGS}' has it write one")
SAID = {"ir": "StableHLO, as JAX gives it to XLA", "output_code": "HLO, as XLA optimised it"}
KINDS = ("fusion", "custom-call", "copy", "sort")
"""Instructions of HLO that become kernels."""
_MADE = re.compile(r"^ *(?:ROOT )?%([\w.-]{1,400}) = [^=\n]*?\b(\w[\w-]*)\(([^\n]*)$", re.MULTILINE)
_DUMP = re.compile(r"--xla_dump_to=(\S+)")
_FRAME = re.compile(r"stack_frame_id=(\d{1,9})")
_PLACE = re.compile(r'source_file="([^"\n]{1,4096}+)"[^\n]{0,200}?source_line=(\d{1,9})')
_TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d[^\n]*\n)*)", re.MULTILINE)
_FIELD = re.compile(r"(?<!\w)(\w+)=(\d{1,9})")
_lowered: dict[str, dict[str, Any]] = per_recording({})
"""Pallas' kernels by name, until XLA has compiled them."""


def attach(module: Any) -> None:
    """``jax._src.compiler``: compiles a module, or has it in its cache."""

    def compiled(token: tuple[Any, Any], executable: Any) -> None:
        backend, computation = token
        if str(getattr(backend, "platform", "")) in ("gpu", "cuda"):
            _write_kernels(computation, executable)

    call_arguments = arguments("backend", "computation")
    private_names.wrap(
        "jax._src.compiler:compile_or_get_cached", call_arguments, succeeded(compiled)
    )


def attach_pallas(module: Any) -> None:
    """``jax._src.pallas.triton.lowering``: makes Triton's IR of a kernel's jaxpr."""

    def lowered(jaxpr: Any, result: Any) -> None:
        info = jaxpr.debug_info
        if len(_lowered) < MAX_KERNELS:
            name = re.sub(r"\W", "_", info.func_name)
            text = result.module.operation.get_asm(enable_debug_info=True)
            _lowered[name] = {"ttir": text, **source_place(info.func_filename, info.func_lineno)}

    name = "jax._src.pallas.triton.lowering:lower_jaxpr_to_triton_module"
    private_names.wrap(name, argument(0, "jaxpr"), succeeded(lowered))


def _write_kernels(computation: Any, executable: Any) -> None:
    name = str(computation.operation.attributes["sym_name"]).strip('"')
    ir = computation.operation.get_asm(enable_debug_info=True, large_elements_limit=16)
    hlo = "\n".join(module.to_string() for module in executable.hlo_modules())
    # A module has one text for all its kernels, which may be thousands.
    texts = {"ir": blob(ir), "output_code": blob(hlo), "said": SAID, "lacks": LACKS}
    places = _places(hlo)
    dumped = _dumped(name)
    of_pallas = {n: _lowered.pop(n) for n in list(_lowered) if n in ir}
    for symbol, place in list({**places, **of_pallas}.items())[:MAX_KERNELS]:
        dumps = [module for module in dumped if f".entry {symbol}(".encode() in module["ptx"]]
        code = dumps[-1] if dumps else {}  # the newest
        write_kernel({"by": BY, "name": symbol, "symbol": symbol, **texts, **place, **code})
    if not places and not of_pallas:
        record(BY, [f"{name} (all of its module)"], **texts)


def _dumped(name: str) -> list[dict[str, bytes]]:
    """What XLA has just written of a module, where the program's own XLA_FLAGS have it do so."""
    flag = _DUMP.search(os.environ.get("XLA_FLAGS", ""))
    if flag is None:
        return []
    ptx_files = sorted(Path(flag[1]).glob(f"*.{name}.*.ptx"), key=lambda p: p.stat().st_mtime)
    modules = []
    for path in ptx_files[-MAX_KERNELS:]:
        llir_file = path.with_suffix(".ir-with-opt.ll")
        if llir_file.exists():
            modules.append({"ptx": path.read_bytes(), "llir": llir_file.read_bytes()})
    return modules


def _places(hlo: str) -> dict[str, dict[str, Any]]:
    """The instructions of a module that become kernels, by the kernel's name, with their line."""
    tables = {name: rows.splitlines() for name, rows in _TABLE.findall(hlo)}
    out: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    for name, kind, instruction in _MADE.findall(hlo):
        if kind not in KINDS:
            continue
        path, line = _instruction_place(instruction, tables)
        if path not in sources:
            sources[path] = source_place(path, 1, is_block=False)
        source = sources[path]
        out.setdefault(re.sub(r"\W", "_", name), source and {**source, "lines": [line, line]})
    return out


def _instruction_place(instruction: str, tables: Mapping[str, list[str]]) -> tuple[str, int]:
    """The file and line that an instruction names, itself or by a frame of the module's tables."""
    if match := _PLACE.search(instruction):
        return match[1], int(match[2])
    match = _FRAME.search(instruction)
    frames = tables.get("StackFrames", [])
    if match is None or not 0 < int(match[1]) <= len(frames):
        return "", 0
    frame = _fields(frames[int(match[1]) - 1])
    location = _fields(tables["FileLocations"][frame["file_location_id"] - 1])
    name_row = tables["FileNames"][location["file_name_id"] - 1]
    return name_row.partition('"')[2].rstrip('"'), location["line"]


def _fields(row: str) -> dict[str, int]:
    """The numbers in a row of a module's table, by name."""
    return {name: int(value) for name, value in _FIELD.findall(row)}
