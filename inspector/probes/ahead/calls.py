"""Beside a program that runs: each kernel that it compiles is compiled for every target as well."""

from __future__ import annotations

import functools
from typing import Any

from ..autotune import trials
from ..writer import problem
from . import job as jobs
from . import one


def attach(module: Any) -> None:
    """Stand around ``triton.compiler.compiler.compile``, which every launch of a new kind calls."""
    job = jobs.read()
    if job.language != "triton" or job.signature is not None:
        return
    outer = module.compile
    own = one.native(outer)
    busy = False

    @functools.wraps(outer)
    def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal busy
        if busy or isinstance(src, str):
            return outer(src, *args, **kwargs)
        busy = True
        try:
            try:
                one.each(job, _subject(src, args, kwargs), own)
            except Exception as error:
                problem("compile", error)
        finally:
            busy = False
        # For the program itself, once more: from the cache where one of the targets is its own.
        try:
            kernel = own(src, *args, **kwargs)
        except Exception as error:
            trials.failed(error)
            raise
        trials.compiled(getattr(kernel, "hash", None), getattr(kernel, "name", None))
        return kernel

    module.compile = compile


def _subject(src: Any, args: Any, kwargs: Any) -> one.Subject:
    target = kwargs.get("target", args[0] if args else None)
    given = kwargs.get("options", args[1] if len(args) > 1 else None) or {}
    given = dict(given if isinstance(given, dict) else vars(given))
    options = one.explicit(given, target or one.gpu_target(90))
    # What a kernel is launched with is told, even where it is what it would be anyway.
    options |= {n: given[n] for n in jobs.CONFIG if given.get(n) is not None}
    return one.Subject(src, options, str(getattr(src, "name", "")))
