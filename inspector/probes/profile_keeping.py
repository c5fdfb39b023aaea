"""Keeps the trace of a window with the recording."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

from .writer import emit, folder, moved, problem

COMPRESSION = 3


def keep(session: Any, facts: dict[str, Any], write: Callable[[str], object]) -> None:
    """Store the trace that ``write(path)`` makes, compressed, and the event that names it."""
    root = folder()
    if root is None:
        return
    base = os.path.join(root, "blobs", f".profile.{os.getpid()}.{time.time_ns():x}")
    plain, packed = base + ".json", base + ".gz"
    try:
        with session.own():
            write(plain)
        with open(plain, "rb") as source, gzip.open(packed, "wb", COMPRESSION) as out:
            shutil.copyfileobj(source, out, 1 << 20)
        digest = moved(packed)
        torch = session.torch
        emit(
            {
                "event": "profile",
                **facts,
                "trace": digest,
                "gpu": session.on_gpu(),
                "torch": str(getattr(torch, "__version__", "")),
            }
        )
    except Exception as error:
        problem("profile", error)
    finally:
        for path in (plain, packed):
            if os.path.exists(path):
                os.unlink(path)
