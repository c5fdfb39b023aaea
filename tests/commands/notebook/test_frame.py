"""What a notebook shows of a recording is a page in a frame, and text in it stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from inspector.commands import notebook as frame
from inspector.commands.common import open_reader
from inspector.recording.layout import Writer
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.shared import once

EVIL = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[2J"


@pytest.fixture(scope="session")
def few(common: Path) -> Path:
    """The kernels of the recording that square, in one of their own."""

    def export(to: Path) -> None:
        assert call("export", SAMPLE, "square_kernel", "softmax_kernel", "-o", to).status == 0

    return once(common / "made" / "squares.ptxview", export)


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


def evil(folder: Path) -> Path:
    writer = Writer(folder / "evil")
    writer.event(event="recording", schema=1, time=1.0)
    blob = writer.blob(f".version 8.0\n.target sm_90\n// {EVIL}\n".encode())
    writer.event(
        event="triton",
        name=EVIL,
        hash="a" * 64,
        files={"ptx": blob},
        metadata={"num_warps": EVIL},
        source={"file": EVIL, "blob": blob},
    )
    writer.close()
    return folder / "evil"


def test_text_of_strangers_is_no_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = open_reader(str(evil(tmp_path)))
    whole = within(frame.framed(reader))
    # The recording's text is in scripts that no browser runs, and contains no tag.
    kinds = [value for name, value in whole.attributes if name == "type"]
    assert (
        whole.tags.count("script")
        == kinds.count("text/plain")
        + kinds.count("application/json")
        + whole.attributes.count(("type", None))
        + 1
    )
    monkeypatch.setattr(frame, "MAX_CHARS", 0)
    table = within(frame.framed(reader))
    assert not {"script", "img"} & set(table.tags) and table.tags.count("pre") == 1
    for page in (whole, table):
        assert "img" not in page.tags
        assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "<script>" in table.text and "\x1b" not in table.text


@pytest.mark.parametrize("bound", ["MAX_CHARS", "MAX_VARIANTS"])
def test_large_recordings_are_shown_as_a_table(
    monkeypatch: pytest.MonkeyPatch, few: Path, bound: str
) -> None:
    reader = open_reader(str(few))
    monkeypatch.setattr(frame, bound, 5)
    page = frame.framed(reader)
    assert len(page) < 100_000 and "ptxview export" in page
    variants = list(reader.recording.variants())
    assert len(variants) > 5
    for kernel, variant in variants:
        assert kernel.demangled in within(page).text and variant.id in within(page).text
