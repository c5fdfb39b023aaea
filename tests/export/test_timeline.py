"""The timeline of a step in what is exported: a page's picture, a line of Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.browser import browser, needs_browser
from tests.helpers.exported import index_of
from tests.helpers.gpu_timeline import recorded, steps, timeline_file
from tests.helpers.ptxview import SAMPLE, call
from tests.recording.test_driver_records import symbol as symbol


@pytest.fixture
def folder(tmp_path: Path, symbol: bytes) -> Path:
    return recorded(tmp_path / "recording", symbol, timeline_file(steps(5)))


@needs_browser
async def test_a_page_draws_a_step_with_a_title_on_each_bar(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert call("export", folder, "-o", page).status == 0
    async with browser(tmp_path / "browser") as tab:
        await tab.window(1400, 900)
        await tab.ask("Page.navigate", url=page.as_uri())
        await tab.come("document.querySelectorAll('.pane .l').length > 5")
        await tab.type("$")
        await tab.come("document.querySelectorAll('svg.timeline rect').length === 3")
        bars = await tab.value(
            "[...document.querySelectorAll('svg.timeline rect')].map((bar) =>"
            "[bar.querySelector('title').textContent, bar.getBoundingClientRect().width])"
        )
        (copy, copy_width), (kernel, kernel_width), _ = bars
        assert copy.startswith("at 200.00 µs · 2.00 µs") and copy.endswith("copy host to device")
        assert "20.0 µs · after 8.00 µs idle" in kernel and "triton" in kernel
        assert kernel_width == pytest.approx(10 * copy_width, rel=0.01)
        text = await tab.value("document.querySelector('#costs').innerText")
        assert "GPU busy 26 %" in text and "step 3 of 4, of median length" in text
        assert tab.complaints == []


def test_markdown_has_a_line_on_the_window(folder: Path, tmp_path: Path) -> None:
    assert call("export", folder, "-o", tmp_path / "x.md").status == 0
    (line,) = [t for t in (tmp_path / "x.md").read_text().split("\n") if "GPU busy" in t]
    steps = "4 steps of 100.0 µs (call of a graph)"
    assert line == f"GPU busy 26 % of 430.0 µs · {steps} · 10 launches · 2 streams"


def test_a_recording_without_a_timeline_is_exported_without_one(tmp_path: Path) -> None:
    for name in ("x.html", "x.md"):
        assert call("export", SAMPLE, "softmax_kernel", "-o", tmp_path / name).status == 0
    assert index_of((tmp_path / "x.html").read_bytes())["timeline"] is None
    assert "GPU busy" not in (tmp_path / "x.md").read_text()
