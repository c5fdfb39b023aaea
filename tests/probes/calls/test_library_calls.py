"""Functions of extension modules that are imported, not built: their calls are seen too."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ExtensionFileLoader
from typing import Any

import pytest

from inspector.probes.calls import subjects
from inspector.probes.compiles import libraries

NAME = "_heapq"


def imported(monkeypatch: pytest.MonkeyPatch, his: bool) -> Any:
    """An extension module of the standard library, loaded anew as if it were the user's or not."""
    for method in ("create_module", "exec_module"):
        monkeypatch.setattr(ExtensionFileLoader, method, getattr(ExtensionFileLoader, method))
    monkeypatch.setattr(libraries, "_look", lambda path, name: his)
    monkeypatch.setattr(libraries, "_his", set())
    libraries.attach(None)
    found = importlib.util.find_spec(NAME)
    if found is None or not isinstance(found.loader, ExtensionFileLoader):
        pytest.skip(f"{NAME} is built into this interpreter")
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_calls_of_a_module_with_device_code_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = imported(monkeypatch, his=True)
    before = dict(subjects._all)
    try:
        held: list[int] = []
        for n in (3, 1, 2):
            heap.heappush(held, n)
        assert held[0] == 1 and heap.heappush.__name__ == "heappush"
        subject = subjects._all["extension", f"{NAME}.heappush"]
        assert sum(entry[0] for entry in subject.calls.values()) == 3
        assert subject.facts["library"]["path"].endswith(".so")
        assert len(subject.facts["library"]["sha256"]) == 64
    finally:
        subjects._all.clear()
        subjects._all.update(before)


def test_other_modules_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = imported(monkeypatch, his=False)
    assert type(heap.heappush).__name__ == "builtin_function_or_method"
