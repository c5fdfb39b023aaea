"""The page in a real browser, without a network: judged by what the command line says of the same
recording, and by what the browser complains of."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from inspector.export.page import grouped_links
from inspector.recording.layout import UPGRADES, stored_records
from tests.helpers.browser import Page, browser, needs_browser
from tests.helpers.exported import blocks_of, index_of
from tests.helpers.ptxview import SAMPLE, call
from tests.helpers.upgraded import upgraded

pytestmark = needs_browser

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX, MATMUL = "ed6dc2ce", "ff3a7da2"
MARKED = """(stage) => {
  const shows = (p) => p.querySelector('select').value === stage;
  const pane = [...document.querySelectorAll('.pane')].find(shows);
  return [...pane.querySelectorAll('.l.linked[data-line]')].map((l) => Number(l.dataset.line));
}"""
HERE = "document.querySelector('.pane.here .l.at')?.dataset.line"
FIRST = "document.querySelectorAll('.pane .l').length > 5 || !!document.querySelector('#costs td')"
ASIDE = re.compile(r"/\*[0-9a-f]{4,}\*/|\s*(//|loc\(|, !dbg ).*|\s+")
SILENT = re.compile(r"\s*(\.loc\b|//|\$L__\w+:|$)")


@asynccontextmanager
async def shown(page: Path, place: str, folder: Path) -> AsyncIterator[Page]:
    """The page at its own address; it ends without console errors or requests."""
    async with browser(folder / "browser") as tab:
        await tab.window(1400, 900)
        await tab.ask("Page.navigate", url=f"{page.as_uri()}#{place}")
        await tab.come(f"{FIRST} || !!document.querySelector('#graph .l')")
        yield tab
        assert tab.complaints == []
        assert {url.partition("#")[0] for url in tab.requests} <= {page.as_uri(), "data:,"}


def said(variant: str, stage: str) -> Any:
    """What ``show --json`` says of the lines of a stage, by number."""
    return {
        line["n"]: line
        for line in call("show", SAMPLE, variant, "--stage", stage, "--json").json["lines"]
    }


@pytest.mark.nightly
async def test_a_line_marks_what_belongs_to_it_in_both_directions(
    lecture: Path, tmp_path: Path
) -> None:
    stages = ("source", "ptx", "sass")
    lines = {stage: said(SOFTMAX, stage) for stage in stages}
    async with shown(lecture, f"{SOFTMAX}/ptx/1/source+ptx+sass", tmp_path) as tab:
        tried = 0
        for stage in stages:
            linked = [n for n, line in lines[stage].items() if len(line["links"]) > 1]
            for n in linked[:: max(1, len(linked) // 6)]:
                await tab.value(f"location.hash = '#{SOFTMAX}/{stage}/{n}/source+ptx+sass'")
                await tab.come(
                    f"{HERE} === '{n}' && !document.querySelector('.pane.here .l.linked')"
                )
                for other in stages:
                    expected = lines[stage][n]["links"].get(other, []) if other != stage else []
                    assert await tab.value(f"({MARKED})({other!r})") == expected, (stage, n, other)
                tried += 1
        assert tried > 15


async def test_line_annotations_equal_the_command_line(lecture: Path, tmp_path: Path) -> None:
    lines = said(SOFTMAX, "sass")
    async with shown(lecture, f"{SOFTMAX}/sass/1/sass", tmp_path) as tab:
        await tab.type("w")
        await tab.value("dispatchEvent(new Event('beforeprint'))")  # every row is built
        told = await tab.come(
            "(() => { const rows = [...document.querySelectorAll('.pane .l')];"
            " let at = 0; const out = {};"
            " for (const row of rows) { if (row.dataset.line) at = row.dataset.line;"
            " else (out[at] ??= []).push(row.lastChild.textContent.replace(/^\\s*└ /, '')); }"
            " return Object.keys(out).length && out })()"
        )
        for n, line in lines.items():
            sentences = [s for s in (line["sentence"], *line["waits"]) if s]
            own = [t for t in told.get(str(n), []) if not t.startswith(("⚠", "◆", "·"))]
            assert own == sentences, n
        # The gutter counts what nvdisasm -plr counts, as show --json has it.
        gutter = await tab.value(
            "[...document.querySelectorAll('.pane .l[data-line]')].map((l) => [l.dataset.line,"
            " l.querySelector('i').textContent])"
        )
        for n, live in gutter:
            known = lines[int(n)]["live"]
            assert live == ("" if known is None else str(known["gpr"]))


async def test_parameters_of_ptx_have_their_names(lecture: Path, tmp_path: Path) -> None:
    async with shown(lecture, f"{SOFTMAX}/ptx/1/ptx", tmp_path) as tab:
        await tab.value("dispatchEvent(new Event('beforeprint'))")  # every row is built
        lines = await tab.come(
            "(() => { const rows = [...document.querySelectorAll('.pane .l[data-line]')];"
            " const texts = rows.map((row) => row.lastChild.textContent);"
            " return texts.some((text) => text.includes('ld.param')) && texts })()"
        )
    loads = [line for line in lines if "ld.param" in line]
    assert any("[…input_ptr]" in line for line in loads), loads
    assert "_param_" not in "".join(loads)


async def test_the_card_has_the_picture_that_json_has(lecture: Path, tmp_path: Path) -> None:
    shown_json = call("show", SAMPLE, MATMUL, "--json").json
    (picture,) = [f["pictures"][0] for f in shown_json["functions"] if f.get("pictures")]
    async with shown(lecture, f"{MATMUL}/facts", tmp_path) as tab:
        await tab.come("document.querySelectorAll('svg.picture').length > 0")
        text = await tab.value("document.querySelector('figure figcaption').innerText")
        assert text == f"{picture['title']} {picture['answer']}"
        filled = await tab.value(
            "document.querySelector('svg.picture').querySelectorAll('rect:not(.free)').length"
        )
        assert filled == sum(row["value"] for row in picture["rows"])


@pytest.mark.nightly
async def test_search_finds_text_and_its_kernels(lecture: Path, tmp_path: Path) -> None:
    text = call("show", SAMPLE, MATMUL, "--stage", "ptx").text.split("\n")
    hits = [n for n, line in enumerate(text, 1) if "wgmma.mma_async" in line.lower()]
    assert len(hits) > 1
    having = set()
    for variant in index_of(lecture.read_bytes())["variants"]:
        if "wgmma.mma_async" in call("show", SAMPLE, variant["id"], "--stage", "ptx").text:
            having.add(variant["id"])
    async with shown(lecture, f"{MATMUL}/ptx/1/source+ptx", tmp_path) as tab:
        await tab.type("/wgmma.MMA")
        count = "document.getElementById('count').textContent"
        await tab.come(f"{count} === '1 of {len(hits)}'")
        assert await tab.value(HERE) == str(hits[0])
        await tab.press("Enter")
        assert await tab.value(HERE) == str(hits[1])
        marked = await tab.value(
            "[...document.querySelectorAll('.pane.here .l.at mark')]"
            ".map((m) => m.textContent).join('')"
        )
        assert marked == "wgmma.mma"
        await tab.press("Escape")
        await tab.type("N")
        assert await tab.value(HERE) == str(hits[0])
        await tab.click("#everywhere")
        await tab.come("document.getElementById('shown').textContent.includes(' of ')")
        listed = await tab.value(
            "[...document.querySelectorAll('#list .item')].map((i) => i.title)"
        )
        assert {re.split(r"[\n ]", title)[1] for title in listed} == having


@pytest.mark.nightly
async def test_the_list_is_filtered_and_walked_by_the_keyboard(
    lecture: Path, tmp_path: Path
) -> None:
    name = "document.querySelector('#subject h2').textContent"
    async with shown(lecture, "", tmp_path) as tab:
        await tab.type("fgelu")
        items = "[...document.querySelectorAll('#list .what')].map((w) => w.textContent)"
        await tab.come("document.querySelectorAll('#list .item').length === 2")
        assert await tab.value(items) == ["gelu_kernel", "gelu_float_kernel"]
        await tab.press("Enter")
        await tab.come(f"{name} === 'gelu_kernel'")
        await tab.press("ArrowDown")
        await tab.come(f"{name} === 'gelu_float_kernel'")
        active = await tab.value(
            "(() => { const l = document.activeElement; const o = document.getElementById("
            "l.getAttribute('aria-activedescendant')); return [l.id, l.getAttribute('role'),"
            " o.getAttribute('role'), o.getAttribute('aria-selected'), o.textContent] })()"
        )
        assert active[:4] == ["list", "listbox", "option", "true"]
        assert "gelu_float_kernel" in active[4]
        await tab.press("Enter")
        assert await tab.value("document.activeElement.closest('.pane') !== null")
        await tab.type("[")
        await tab.come(f"{name} === 'gelu_kernel'")
        for key, panes in (("3", 3), ("1", 1), ("2", 2)):
            await tab.type(key)
            await tab.come(
                "document.querySelectorAll('.pane .l').length"
                f" && document.querySelectorAll('.pane').length === {panes}"
            )
        await tab.type("?")
        assert await tab.value("document.getElementById('help').open")
        await tab.press("Escape")
        assert not await tab.value("document.getElementById('help').open")
        # Every control says what it is.
        unnamed = await tab.value(
            "[...document.querySelectorAll('button, input, select, [tabindex]')].filter((e) =>"
            " !(e.textContent || e.getAttribute('aria-label') || e.labels?.length || e.title"
            " || e.getAttribute('aria-labelledby'))).length"
        )
        assert unnamed == 0


@pytest.mark.nightly
async def test_a_comparison_says_what_diff_says(lecture: Path, tmp_path: Path) -> None:
    data = lecture.read_bytes()
    index, blocks = index_of(data), blocks_of(data)
    ids = [v["id"] for v in index["variants"]]
    assert len(index["pairs"]) > 10
    for a, b, stage, number in index["pairs"][:: max(1, len(index["pairs"]) // 8)]:
        value = call(
            "diff", f"{SAMPLE}::{ids[a]}", f"{SAMPLE}::{ids[b]}", "--stage", stage, "--json"
        ).json
        block = blocks[number]
        assert block["identical"] == value["identical"]
        assert block["explanation"] == value["explanation"]
        equal = {n for h in value["hunks"] if h["op"] == "equal" for n in range(*h["a"])}
        # What diff says is the same is shown so, and else only what says nothing of the code.
        alike = {row[1]: row[2] for row in block["rows"] if row[0] == 0 and row[1]}
        lines = call("show", SAMPLE, ids[a], "--stage", stage).text.split("\n")
        others = call("show", SAMPLE, ids[b], "--stage", stage).text.split("\n")
        assert alike.keys() >= equal
        # Nor is what reads the same marked, at another address or of another place.
        assert all(
            SILENT.match(lines[n - 1])
            or ASIDE.sub("", lines[n - 1]) == ASIDE.sub("", others[alike[n] - 1])
            for n in alike.keys() - equal
        )
    verdict = "document.querySelector('.verdict')?.textContent"
    async with shown(lecture, f"{SOFTMAX}", tmp_path) as tab:
        # Two kernels of different names, and variants of one: beforehand or from their texts.
        for a, b, stage in (
            ("780c582c", "812d5e0d", "sass"),
            ("780c582c", "a7c93eac", "sass"),
            ("780c582c", "812d5e0d", "ptx"),
            ("4848992d", "2e569683", "ptx"),
            (SOFTMAX, MATMUL, "ptx"),
        ):
            value = call(
                "diff", f"{SAMPLE}::{a}", f"{SAMPLE}::{b}", "--stage", stage, "--json"
            ).json
            await tab.value(f"location.hash = '#compare/{a}/{b}/{stage}'")
            same = f"The {stage} is the same code: names, .loc and comments do not count."
            expected = same if value["identical"] else f"The {stage} differs."
            await tab.come(f"location.hash.includes('{b}/{stage}') && {verdict} === {expected!r}")
            await tab.come("document.querySelectorAll('#beside .d').length > 0")


async def test_it_is_dark_and_light_with_enough_contrast(lecture: Path, tmp_path: Path) -> None:
    pictures = {}
    async with shown(lecture, f"{MATMUL}/ptx/120/source+ptx", tmp_path) as tab:
        for scheme in ("light", "dark"):
            await tab.window(1400, 900, scheme)
            await tab.come(f"document.documentElement.dataset.theme === '{scheme}'")
            pictures[scheme] = await tab.picture(tmp_path / f"{scheme}.png")
            worst = await tab.value(CONTRAST)
            assert worst[0] >= 4.5, (scheme, worst)
        assert pictures["light"] != pictures["dark"]
        assert min(map(len, pictures.values())) > 40_000
        # The switch goes before the system's wish, and is kept.
        await tab.click("#theme")
        await tab.click("#theme")
        assert await tab.value("document.documentElement.dataset.theme") == "light"
        await tab.ask("Page.reload")
        await tab.come(FIRST)
        assert await tab.value("document.documentElement.dataset.theme") == "light"
        await tab.window(420, 800)
        assert await tab.value("document.documentElement.scrollWidth") == 420
        assert not await tab.value("document.getElementById('side').offsetParent")
        await tab.click("#menu")
        assert (
            await tab.value("getComputedStyle(document.getElementById('side')).display") == "flex"
        )


CONTRAST = """(() => {
  const rgb = (c) => c.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, n) => sum + v * [.2126, .7152, .0722][n], 0);
  let worst = [99];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
    if (!e.offsetParent || !own) continue;
    if (e.closest('.out, .away')) continue;  // what is not of the kernel is dimmed on purpose
    let back = e;
    while (back && rgb(getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
    const behind = getComputedStyle(back ?? document.body).backgroundColor;
    const pair = [getComputedStyle(e).color, behind].map((c) => light(rgb(c)));
    const ratio = (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
    if (ratio < worst[0]) worst = [ratio, e.className, e.tagName, e.textContent.slice(0, 40)];
  }
  return worst;
})()"""


@pytest.mark.nightly
async def test_a_graph_names_its_kernels_and_their_lines(lecture: Path, tmp_path: Path) -> None:
    graph = call("list", SAMPLE, "--json").json["graphs"][0]
    (kernel,) = graph["kernels"]
    async with shown(lecture, "graph/0%2F0", tmp_path) as tab:
        marked = await tab.value(
            "[...document.querySelectorAll('#graph .l.linked b')].map((b) => Number(b.textContent))"
        )
        assert marked == sorted(graph["calls"][kernel])
        # Each of its stages is a key away, its lines tied to the same kernels.
        stages = await tab.value(
            "[...document.querySelectorAll('#graph .stages button')].map((b) => b.textContent)"
        )
        assert stages[-2:] == ["operations", "output_code"] and "post_grad" in stages
        await tab.click("#graph .stages [data-stage=operations]")
        lines = "[...document.querySelectorAll('#graph .l.linked')].map((l) => l.textContent)"
        await tab.come(f"{lines}.some((l) => l.includes({kernel!r}))")
        await tab.click("#graph .kernels td:last-child button")  # a line is output_code's
        pressed = "document.querySelector('#graph .stages [aria-pressed=true]').textContent"
        await tab.come(f"{pressed} === 'output_code'")
        await tab.click("#graph .kernels button")
        await tab.come(f"document.querySelector('#subject .full')?.textContent === {kernel!r}")
        await tab.come(FIRST)


async def test_what_a_stranger_wrote_is_text(tmp_path: Path) -> None:
    evil = "</script><script>window.pwned=1</script><img src=x onerror=pwned=1>\u202e\x1b[2J<!--"
    source = tmp_path / "evil.ptx"
    source.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        f".visible .entry k()\n{{\n  // {evil} ]]> ${{alert(1)}} ' \" &lt;\n  ret;\n}}\n",
        "utf-8",
    )
    page = tmp_path / f"{evil.replace('/', '')[:60]}.html".replace("\x1b", "")
    assert call("export", source, "-o", page).status == 0
    text = page.read_bytes()
    assert b"pwned=1<" not in text and text.isascii()
    policy = re.search(rb'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None and policy[1].startswith(b"default-src 'none'; script-src 'sha256-")
    async with shown(page, "", tmp_path) as tab:
        assert await tab.value("window.pwned") is None
        assert await tab.value("document.querySelectorAll('img').length") == 0
        lines = await tab.value(
            "[...document.querySelectorAll('.pane .l')].map((l) => l.textContent)"
        )
        line = next(text for text in lines if "pwned" in text)
        assert evil[:60] in line and "‹U+202E›" in line and "␛" in line
        # The policy lets nothing in, for any foreign script.
        await tab.value(
            "(() => { const s = document.createElement('script');"
            " s.textContent = 'window.pwned = 2';"
            " document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x'; })()"
        )
        await asyncio.sleep(0.2)
        assert await tab.value("window.pwned") is None
        assert tab.blocked == ["csp"] and tab.requests.pop() == "http://127.0.0.1:9/x"
        assert len(tab.complaints) >= 2 and all("Content Security" in c for c in tab.complaints)
        tab.complaints.clear()


async def test_it_opens_on_kernels_by_cost_and_a_line_has_a_lasting_link(
    lecture: Path, tmp_path: Path
) -> None:
    costs = call("list", SAMPLE, "--by", "cost", "--json").json["costs"]
    async with shown(lecture, "", tmp_path) as tab:
        links = await tab.value(
            "[...document.querySelectorAll('#costs td a')].map((a) => a.getAttribute('href'))"
        )
        assert [link.removeprefix("#") for link in links] == [row["variant"] for row in costs]
        heads = "[...document.querySelectorAll('#costs th')].map((h) => h.textContent)"
        assert "registers" in await tab.value(heads) and "" not in await tab.value(heads)
        items = await tab.value(
            "[...document.querySelectorAll('#list .item')].map((i) => i.innerText)"
        )
        assert len(items) == len(set(items))
        # A folded line is shown when it is linked to, also after the page is opened again.
        lines = call("show", SAMPLE, SOFTMAX, "--stage", "ptx").text.split("\n")
        n = next(n for n in range(1, len(lines)) if ".loc" in lines[n - 1] and "mov" in lines[n])
        code = "[...document.querySelectorAll('.pane.here .l[data-line]')].map((l) => l.innerText)"
        await tab.value(f"location.hash = '#{SOFTMAX}/ptx/{n + 1}/ptx'")
        await tab.come(f"{HERE} === '{n + 1}'")
        assert not any(".loc" in text for text in await tab.value(code))
        await tab.value(f"location.hash = '#{SOFTMAX}/ptx/{n}/ptx'")
        await tab.come(f"{HERE} === '{n}'")
        await tab.ask("Page.reload")
        await tab.come(f"{HERE} === '{n}'")
        assert any(".loc" in text for text in await tab.value(code))


def test_lines_of_one_block_are_grouped_without_a_pass_over_the_block_for_each() -> None:
    class Block(tuple[int, ...]):
        hashed = 0

        def __hash__(self) -> int:
            Block.hashed += 1
            return super().__hash__()

    block = Block(range(1, 1001))
    links = dict.fromkeys(range(1, 1001), block) | {
        1001: tuple(range(1, 1001)),
        1002: (7,),
        1003: (),
    }
    assert grouped_links(links) == "1-1001>1-1000;1002>7"
    assert Block.hashed < 10


async def test_a_report_of_upgrade_is_a_section_that_leads_to_its_kernels(tmp_path: Path) -> None:
    path, page = upgraded(tmp_path), tmp_path / "page.html"
    assert call("export", path, "-o", page).status == 0
    async with shown(page, "", tmp_path) as tab:
        text = await tab.value("document.querySelector('#costs').innerText")
        assert "16 variants: 11 the same, 1 in other order or registers alone" in text
        assert "1 variant refused now: out of registers" in text
        assert await tab.value("document.querySelector('#costs b')") is None
        cells = "[...document.querySelectorAll('#costs details td')].map((d) => d.textContent)"
        texts = await tab.value(cells)
        assert {"mad.lo.s32 became add.s15", "24 → 32", "100 → 62.5 %"} <= set(texts)
        links = "[...document.querySelectorAll('#costs details a')].map((a) => a.hash.slice(1))"
        assert await tab.value(links) == ["b533c0b0", "4848992d"]


async def test_a_report_without_changes_is_on_the_page_of_one_kernel(tmp_path: Path) -> None:
    before, after = tmp_path / "before.ptxview", tmp_path / "after.ptxview"
    for path in (before, after):
        assert call("export", SAMPLE, "gelu_kernel", "-o", path).status == 0
    assert call("upgrade", before, after).status == 0
    page = tmp_path / "page.html"
    assert call("export", after, "-o", page).status == 0
    async with shown(page, "", tmp_path) as tab:
        lines = (await tab.value("document.querySelector('#costs').innerText")).splitlines()
        assert [line for line in lines if line][-4:] == [
            "Upgrade",
            "the same compilers",
            "1 variant: 1 the same, 0 changed",
            f"before: {before}",
        ]


def test_a_report_of_upgrade_travels_with_the_whole_recording_alone(tmp_path: Path) -> None:
    path, copy = upgraded(tmp_path), tmp_path / "copy.ptxview"
    for words, kept in (((), True), (("gelu_kernel",), False), (("--without", "args"), False)):
        assert call("export", path, *words, "-o", copy).status == 0
        assert len(stored_records(copy, UPGRADES)) == kept, words
        assert call("export", copy if kept else path, *words, "-o", tmp_path / "p.html").status == 0
        index = index_of((tmp_path / "p.html").read_bytes())
        assert bool(index.get("upgrade")) == kept, words
