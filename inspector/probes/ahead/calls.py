"""Beside a program that runs: each kernel that it compiles is compiled for every target as well."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import private_names
from ..autotune import trials
from . import one


def attach(module: Any) -> None:
    """Observe ``triton.compiler.compiler.compile``, which each launch of a new kind calls."""
    job = one.read_job()
    if job.language == "triton" and job.signature is None:
        before = partial(_compiling, job, one.native(module.compile))
        private_names.wrap("triton.compiler.compiler:compile", before, _compiled)


def _compiling(job: one.Job, own: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compile for every target, before the program's own compilation."""
    given = dict(zip(("src", "target", "options"), args, strict=False)) | kwargs
    src, options = given["src"], given.get("options") or {}
    if isinstance(src, str):
        return
    options = dict(options if isinstance(options, dict) else vars(options))
    chosen = one.explicit(options, given.get("target") or one.gpu_target(90))
    # Launch options are recorded even where they are the defaults.
    chosen |= {n: options[n] for n in one.CONFIG if options.get(n) is not None}
    one.each(job, one.Subject(src, chosen, str(getattr(src, "name", ""))), own)


def _compiled(_: object, kernel: Any, error: BaseException | None) -> None:
    if error is None:
        trials.compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
    elif isinstance(error, Exception):
        trials.failed(error)
