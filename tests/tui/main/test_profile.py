"""What ``ptxview profile`` kept, read in the interface."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from inspector.commands.common import open_reader
from inspector.recording.layout import Writer
from inspector.tui.app.app import PtxviewApp
from inspector.tui.widgets.tool_screen import Overlay
from tests.helpers.profile_traces import Made
from tests.helpers.ptxview import SQUARE
from tests.helpers.sample import text_of
from tests.helpers.shared_app import started

POW = "void at::native::vectorized_elementwise_kernel<4, at::native::pow_kernel>(int)"


pytestmark = pytest.mark.usefixtures("new_user")


def recorded(folder: Path, trace: bytes) -> Path:
    """A recording of one kernel, with a profile of this trace."""
    writer = Writer(folder)
    writer.event(event="recording", schema=1, mode="gpu", time=1.0)
    ptx = writer.blob((SQUARE / "square_kernel.ptx").read_bytes())
    writer.event(event="triton", name="square_kernel", hash="ab" * 32, files={"ptx": ptx}, pid=1)
    blob = writer.blob(gzip.compress(trace))
    writer.event(
        event="profile", time=2.0, trace=blob, gpu=True, began=1.0, ended=2.0, mode="whole"
    )
    writer.close()
    return folder


async def test_operators_kernels_and_who_launched_which(
    tmp_path: Path,
) -> None:
    made = Made()
    made.cpu("ProfilerStep#2", 0, 100, "user_annotation")
    made.launched(["aten::square", "aten::pow"], POW, at=5, took=3)
    reader = open_reader(str(recorded(tmp_path / "rec", made.json().encode())))
    async with started("<profile>", size=(160, 50), app=PtxviewApp(reader)) as (pilot, _):
        assert isinstance(pilot.app.screen, Overlay)
        await pilot.press("end")
        seen = text_of(pilot)
        await pilot.press("home")
        seen += text_of(pilot)
        for word in ("Profile", "self CPU", "aten::pow", "3.00 µs", "aten::square → aten::pow → "):
            assert word in seen, word
