"""What `ptxview compile` asks for, read from the file that the environment names.

The file is JSON: ``file`` (how the user calls it), ``path``, ``language``, ``columns`` (each with
``target``, ``options`` as shown, ``settings`` by name), ``kernels``, ``signature``, ``constexprs``,
``done``, ``doing`` and ``said`` (files for the finished compilations, for the one under way, and
for what is printed meanwhile: a process that dies says nothing else).
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

VARIABLE = "PTXVIEW_COMPILE"
CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class Column:
    """One target with one set of options."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.target: str = values["target"]
        self.options: str = values["options"]
        self.settings: dict[str, Any] = values["settings"]

    @property
    def number(self) -> int:
        """90 for sm_90 and for sm_90a: Triton chooses the flavour itself."""
        return int("".join(c for c in self.target if c.isdigit()))


class Job:
    """All that is to be compiled by this process."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.file: str = values["file"]
        self.path: str = values["path"]
        self.language: str = values["language"]
        self.columns = [Column(c) for c in values["columns"]]
        self.kernels: list[str] = values["kernels"]
        self.signature: dict[str, str] | None = values["signature"]
        self.constexprs: dict[str, Any] = values["constexprs"]
        self._done, self._doing = values["done"], values["doing"]
        self.said: str = values["said"]
        with open(self._done, encoding="ascii") as file:
            self._known = set(file.read().split())

    def begin(self, *parts: Any) -> str | None:
        """Note a compilation as begun; None where an earlier process has done it, or died of it."""
        key = hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
        if key in self._known:
            return None
        self._known.add(key)
        with open(self._doing, "w", encoding="utf-8") as file:
            json.dump({"key": key, "parts": [str(p) for p in parts]}, file)
        return key

    def end(self, key: str) -> None:
        """Note it as done."""
        with open(self._done, "a", encoding="ascii") as file:
            file.write(key + "\n")
        os.unlink(self._doing)


def read() -> Job:
    """The job of this process."""
    with open(os.environ[VARIABLE], encoding="utf-8") as file:
        return Job(json.load(file))
