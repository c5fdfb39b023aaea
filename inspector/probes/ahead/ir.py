"""A file of TTIR, TTGIR or LLVM IR: the stages of Triton's compiler that follow it."""

from __future__ import annotations

import hashlib
import inspect
import re
from typing import Any

from ..writer import blob, plain
from . import one
from .job import Column, Job

_KERNEL = re.compile(
    r"^define [^@\n]*ptx_kernel[^@\n]* @\"?([\w$.]+)|^define void @\"?([\w$.]+)", re.MULTILINE
)
_FUNCTION = re.compile(r"tt\.func (?:public )?@\"?([\w$.]+)")


def run(job: Job) -> None:
    """Compile the file for every column."""
    with open(job.path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    if job.language == "llir":
        match = _KERNEL.search(text)
        name = (match[1] or match[2]) if match else job.file
        for column in job.columns:
            _one(job, column, name, lambda column=column: _from_llir(text, column))
        return
    from triton.compiler import compiler

    own = one.native(compiler.compile)
    match = _FUNCTION.search(text)
    for column in job.columns:
        target, settings = one.gpu_target(column.number), dict(column.settings)
        _one(
            job, column, match[1] if match else job.file,
            lambda target=target, settings=settings: own(
                job.path, target=target, options=settings
            ),
        )  # fmt: skip


def _one(job: Job, column: Column, name: str, make: Any) -> None:
    one.warm(job)
    key = job.begin(name, column.target, column.options)
    if key is not None:
        one.one(job, column, make, job.path, name=name, config={}, signature="")
        job.end(key)


def _from_llir(text: str, column: Column) -> dict[str, Any]:
    """PTX and machine code of LLVM IR, by the last stages of Triton's compiler."""
    from triton._C.libtriton import llvm

    target = one.gpu_target(column.number)
    backend = one.backend_of(target)
    options = backend.parse_options(dict(column.settings))
    stages: dict[str, Any] = {}
    arguments = [stages, options]
    if len(inspect.signature(backend.add_stages).parameters) > 2:
        from triton.backends.compiler import Language

        arguments.append(Language.TRITON)
    backend.add_stages(*arguments)
    llvm.init_targets()
    metadata: dict[str, Any] = {"target": {"backend": "cuda", "arch": column.number}}
    ptx = stages["ptx"](text, metadata)
    cubin = stages["cubin"](ptx, metadata)
    name = str(metadata.get("name") or "")
    digest = hashlib.sha256(repr((text, column.target, vars(options))).encode()).hexdigest()
    event = {
        "event": "triton", "name": name, "hash": digest,
        # Shared memory and warps are not told by LLVM IR.
        "metadata": {**plain(metadata), "name": name, "hash": digest},
        "files": {"llir": blob(text), "ptx": blob(ptx), "cubin": blob(cubin)},
    }  # fmt: skip
    return {"event": event, "asm": {"llir": text, "ptx": ptx, "cubin": cubin}}
