"""What a notebook shows of a recording is a page in a frame, and text in it stays text."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from pathlib import Path

import pytest

from inspector.commands import notebook as frame
from inspector.commands.common import open_reader
from inspector.recording.layout import Writer
from tests.helpers.browser import Page as Browser
from tests.helpers.browser import browser, needs_browser
from tests.helpers.ptxview import REPOSITORY, call
from tests.helpers.shared import once

RECORDING = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
EVIL = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[2J"


@pytest.fixture(scope="session")
def few(common: Path) -> Path:
    """The kernels of the recording that square, in one of their own."""

    def export(to: Path) -> None:
        assert call("export", RECORDING, "square_kernel", "softmax_kernel", "-o", to).status == 0

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


async def text_within(page: Browser) -> str:
    """What the frame of a page shows; nothing while it is being loaded."""
    frames = (await page.ask("Page.getFrameTree"))["frameTree"].get("childFrames", [])
    if not frames:
        return ""
    try:
        world = await page.ask("Page.createIsolatedWorld", frameId=frames[0]["frame"]["id"])
        answer = await page.ask(
            "Runtime.evaluate",
            expression="document.body.innerText",
            contextId=world["executionContextId"],
        )
    except AssertionError:  # it is being reloaded
        return ""
    return str(answer["result"].get("value", ""))


@needs_browser
async def test_the_page_in_the_frame_works_in_a_browser(tmp_path: Path, few: Path) -> None:
    """In a frame of another origin, as a notebook shows it, and with no complaint."""
    html = frame.framed(open_reader(str(few)))
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>cell</title>{html}", "utf-8")
    async with browser(tmp_path / "browser") as page:
        await page.ask("Page.enable")
        await page.ask("Page.navigate", url=(tmp_path / "notebook.html").as_uri())
        await page.come("document.querySelector('iframe') !== null")
        said = ""
        for _ in range(200):
            said = await text_within(page)
            if ".visible .entry" in said:
                break
            await asyncio.sleep(0.1)
        assert "square_kernel" in said and ".visible .entry" in said and "registers" in said
        assert not page.complaints and not page.blocked
        reached = [url for url in page.requests if not url.startswith(("file:", "about:", "data:"))]
        assert not reached


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
