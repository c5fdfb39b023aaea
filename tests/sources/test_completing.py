"""What is added to a recording when its program has ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.parsers.cubin import read_cubin
from inspector.recording.layout import Writer, user_derived_cache
from inspector.sources import completing
from inspector.sources.builds import BuiltCubin, read_folder
from tests.helpers.ptxview import EXTENSION


def test_a_module_of_a_build_is_whole_where_the_build_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the driver loads, one kernel is kept; but the build's own code is that module."""
    monkeypatch.setattr(completing, "MAX_WHOLE_CUBIN_BYTES", 0)
    cache = user_derived_cache()
    (build,) = [b for b in read_folder(EXTENSION, cache) if isinstance(b, BuiltCubin)]
    cubin = read_cubin(build.cubin)
    assert cubin is not None
    writer = Writer(tmp_path / "recording")
    module = writer.blob(build.cubin)
    driver = {"pid": os.getpid(), "time": 2.0}
    writer.event(event="recording", schema=1, command=["python"], mode="gpu", time=1.0)
    writer.event(event="extension", directory=str(EXTENSION), **driver)
    writer.event(event="driver", schema=1, began=True, **driver)
    launch = {"id": 0, "name": cubin.entries[0], "module": module, "libraries": []}
    writer.event(event="driver_launch", grid=[1, 1, 1], block=[1, 1, 1], **launch, **driver)
    writer.event(event="driver_counts", counts={"0": [3, 0, 0, 0]}, **driver)
    recording = completing.complete(writer, cache, sys.executable, "gpu", lambda _: None)
    assert recording is not None and not any("blob" in p for p in recording.problems)
    kernels = {kernel.name: kernel.variants for kernel in recording.kernels}
    assert len(kernels) == len(cubin.entries)
    for (variant,) in kernels.values():
        assert variant.stages[Stage.SASS].content.read() == build.cubin
    launches = [variant.launches for (variant,) in kernels.values()]
    assert sorted(launches, key=str) == sorted([3] + [None] * (len(kernels) - 1), key=str)
