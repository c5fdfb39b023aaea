"""What a notebook shows of a recording is a page in a frame, and text in it stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from inspector.commands.common import open_reader
from inspector.notebook import frame
from inspector.recording.layout import Writer
from tests.helpers.ptxview import REPOSITORY

RECORDING = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
EVIL = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[2J"


class Page(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def within(html: str) -> Page:
    """The page in the frame, and nothing beside the frame."""
    outer = Page(html)
    assert outer.tags == ["iframe"] and not outer.text
    return Page(str(dict(outer.attributes)["srcdoc"]))


def test_every_stage_that_is_at_hand_can_be_read() -> None:
    reader = open_reader(str(RECORDING))
    page = within(frame.framed(reader))
    for kernel, variant in reader.recording.variants():
        assert kernel.demangled in page.text and variant.id in page.text
    assert ".visible .entry square_kernel" in page.text and "tt.func public" in page.text


def test_text_of_strangers_is_no_markup(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "evil")
    writer.event(event="recording", schema=1, time=1.0)
    blob = writer.blob(f".version 8.0\n.target sm_90\n// {EVIL}\n".encode())
    writer.event(event="triton", name=EVIL, hash="a" * 64, files={"ptx": blob},
                 metadata={"num_warps": EVIL}, source={"file": EVIL, "blob": blob})  # fmt: skip
    writer.close()
    page = within(frame.framed(open_reader(str(tmp_path / "evil"))))
    assert not {"script", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text and "\x1b" not in page.text


def test_a_notebook_keeps_no_more_than_is_useful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "MOST", 10_000)
    page = frame.framed(open_reader(str(RECORDING)))
    assert len(page) < 100_000 and "nothing is shown" in page
