"""Markdown, one file, what a page has in it: against the vendor's tools and ``show``."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from inspector.commands.common import open_reader
from inspector.export import page as written
from tests.helpers import hostile
from tests.helpers.exported import blocks_of, index_of, texts_of, variant_of
from tests.helpers.ptxview import DATA, LECTURE, SAMPLE, call, printed, saved, tool, variants_of

ROOT = Path(__file__).resolve().parents[2]
DIGEST = re.compile(r"[0-9a-f]{64}")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@pytest.fixture
def page(lecture: Path) -> bytes:
    return lecture.read_bytes()


def test_a_page_has_the_figures_and_the_text_of_the_vendors_tools(tmp_path: Path) -> None:
    cubin = next(iter((LECTURE / "triton").rglob("matmul_kernel.cubin")))
    out = tmp_path / "x.html"
    assert call("export", cubin, "-o", out).status == 0
    data = out.read_bytes()
    (row,) = index_of(data)["variants"]
    usage = printed(tool("cuobjdump"), "-res-usage", cubin).decode()
    assert f"REG:{row['registers']} " in usage
    (static,) = {int(n) for n in re.findall(r"SHARED:(\d+)", usage)}
    assert static == 1024 and row["shared"].partition("+")[0] in ("1", "1 KiB")
    block = blocks_of(data)[row["block"]]
    text = blocks_of(data)[block["stages"]["sass"]["text"]]["text"]
    assert text == printed(tool("nvdisasm"), "-c", cubin).decode()


@pytest.mark.nightly
def test_every_text_link_hint_and_card_is_what_show_says(page: bytes) -> None:
    listed = call("list", SAMPLE, "--json").json
    blocks = blocks_of(page)
    index = index_of(page)
    assert len(index["variants"]) == len(variants_of(listed))
    for kernel, variant in variants_of(listed)[::6]:
        row, block = variant_of(page, variant["id"])
        assert row["registers"] == variant["resources"]["registers"]
        assert row["launches"] == variant["launches"]
        assert list(block["stages"]) == variant["stages"]
        for stage, of in block["stages"].items():
            text = call("show", SAMPLE, variant["id"], "--stage", stage).text
            assert blocks[of["text"]]["text"] == text
        shown = call("show", SAMPLE, variant["id"], "--json").json
        (function,) = [f for f in shown["functions"] if f["kernel"] == kernel["name"]]
        assert [(h["rule"], h["text"]) for h in block["hints"]] == [
            (n["rule"], n["text"]) for n in function["notes"]
        ]
        assert row["occupancy"] == round(function["card"]["occupancy"]["percent"], 2)
        told = blocks[block["stages"]["ptx"]["told"]]["said"]
        for line in shown["lines"]:
            said = [s for s in (line["sentence"], *line["waits"]) if s]
            assert told.get(str(line["n"]), "").split("\n") == (said or [""])


def test_too_long_text_is_replaced_by_its_size(tmp_path: Path) -> None:
    source = tmp_path / "long.ptx"
    body = "  // " + "x" * 995 + "\n"
    source.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
        + body * 4500
        + "  ret;\n}\n"
    )
    out = tmp_path / "long.html"
    done = call("export", source, "-o", out, "--json")
    assert (
        len(done.json["left_out"]) == 1
        and f"{len(source.read_text()):,}" in done.json["left_out"][0]
    )
    assert "left out" in done.said
    assert index_of(out.read_bytes())["left_out"] == done.json["left_out"]
    assert out.stat().st_size < 200_000


@pytest.mark.parametrize("named", [False, True])
def test_candidates_that_were_never_launched_are_short_unless_they_are_named(
    named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "MAX_KEPT_VARIANTS", 2)
    reader = open_reader(str(SAMPLE))
    found = [(k, v) for k, v in reader.recording.variants() if k.name == "matmul_kernel"]
    assert [bool(v.launches) for _, v in found] == [True, False, False]
    data = "".join(written.page(reader, found, named=named)).encode()
    index, blocks = index_of(data), blocks_of(data)
    for row in index["variants"]:
        block = blocks[row["block"]]
        whole = named or bool(row["launches"])
        assert ("sass" in block["stages"], row["hints"] is not None) == (whole, whole)
        assert "ptx" in block["stages"] and row["registers"] is not None
        assert whole or block["missing"]["sass"]
    assert len(index["left_out"]) == (not named)


def code_blocks(text: str) -> list[tuple[str, list[str]]]:
    """Fenced blocks as CommonMark has them: the info string and the lines."""
    out: list[tuple[str, list[str]]] = []
    fence = ""
    for line in text.split("\n"):
        match = FENCE.fullmatch(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
            else:
                out[-1][1].append(line)
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
            out.append((match[2], []))
    assert not fence, "the last block is not closed"
    return out


def test_an_issue_has_the_figures_the_hints_and_the_code() -> None:
    text = call("export", SAMPLE, "softmax_kernel", "-o", "-").text
    blocks = dict(code_blocks(text))
    source = call("show", SAMPLE, "softmax_kernel", "--stage", "source").text.split("\n")
    assert blocks["python"] and all(line in source for line in blocks["python"])
    ptx = call("show", SAMPLE, "softmax_kernel", "--stage", "ptx").text
    code = [line for line in blocks["ptx"] if line.strip()]
    assert len(code) > 50 and all(line in ptx.expandtabs(4) for line in code)
    assert not any(".loc" in line for line in code)
    variant = variants_of(call("list", SAMPLE, "--json").json)
    (registers,) = {
        v["resources"]["registers"] for k, v in variant if k["name"] == "softmax_kernel"
    }
    assert f"| {registers} |" in text
    hints = call("show", SAMPLE, "softmax_kernel", "--json").json["functions"][0]["notes"]
    assert hints and all(f"{hint['rule']}" in text for hint in hints)
    assert len(text) < 65_536
    assert len(call("export", SAMPLE, "matmul_kernel", "-o", "-").text) < 65_536


def test_no_text_breaks_out_of_its_block(tmp_path: Path) -> None:
    source = tmp_path / "evil|`name`.ptx"
    inside = ["```", "````", "</details>", "<script>", "~~~", "# head", "| a | b |"]
    inside += ["\x1b[31m", "\u202e"]
    source.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
        + "".join(f'.pragma "\n{text}\n";\n' for text in inside)
        + "ret;\n}\n",
        "utf-8",
    )
    text = call("export", source, "-o", "-").text
    blocks = code_blocks(text)
    assert [language for language, _ in blocks] == ["text", "ptx"]
    assert set(inside[:7]) <= set(blocks[1][1])
    assert "\x1b" not in text and "\u202e" not in text
    outside = text
    for _, lines in blocks:
        outside = outside.replace("\n".join(lines), "")
    assert "<script>" not in outside and outside.count("</details>") == 2


def listing(path: Path) -> Any:
    """``list --json`` without the counts of hints, which are made as long as there is time."""
    value = call("list", path, "--json").json
    for _, variant in variants_of(value):
        del variant["hints"]
    return value


@pytest.mark.nightly
@pytest.mark.parametrize("path", [SAMPLE, LECTURE / "triton"], ids=["recording", "cache"])
def test_one_file_opens_as_what_it_was_made_of(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy.ptxview"
    assert call("export", path, "-o", out).status == 0
    before, after = (listing(p) for p in (path, out))
    assert after["kernels"] == before["kernels"]
    assert after["graphs"] == before["graphs"] and after["calls"] == before["calls"]


@pytest.mark.parametrize("variant", ["3ade1c39", "7aeda43a"], ids=["triton", "aten"])
def test_a_named_kernel_of_a_gpu_is_alone_with_its_launches(variant: str, tmp_path: Path) -> None:
    whole, out = DATA.parent / "gpu_times" / "loop.ptxview", tmp_path / "one.ptxview"
    written = call("export", whole, variant, "-o", out, "--json").json
    assert (written["kernels"], written["variants"]) == (1, 1)
    (kernel,) = listing(out)["kernels"]
    (own,) = [k for k in listing(whole)["kernels"] if k["name"] == kernel["name"]]
    assert kernel == own


def test_a_named_kernel_has_its_own_times_alone(tmp_path: Path) -> None:
    whole, out = DATA.parent / "estimate" / "copies.ptxview", tmp_path / "one.ptxview"
    assert call("export", whole, "tma_copy", "-o", out).status == 0
    before, after = (
        [
            row
            for s in call("time", path, "--stored", "--json").json["sessions"]
            for row in s["rows"]
        ]
        for path in (whole, out)
    )
    assert len(after) < len(before) and {row["kernel"] for row in after} == {"tma_copy"}


def test_each_mistake_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    full = tmp_path / "full"
    saved(full / "x", "")
    (tmp_path / "empty.ptx").write_text("")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    for status, said, *words in (
        (4, "does not exist", tmp_path / "no.ptxview", "softmax", "-o", tmp_path / "x.html"),
        (4, "is empty", tmp_path / "empty.ptx", "-o", tmp_path / "x.html"),
        (2, "no kernel or variant is called nothing", SAMPLE, "nothing", "-o", tmp_path / "x.html"),
        (2, "does not say what to write", SAMPLE, "-o", tmp_path / "x.pdf"),
        (2, "is a folder", SAMPLE, "-o", full),
        (2, "does not say what to write", SAMPLE, "-o", tmp_path / "stages"),
        (2, "is not a folder", SAMPLE, "-o", tmp_path / "no" / "x.html"),
        (2, "is not a regular file", SAMPLE, "-o", tmp_path / "pipe", "--format", "html"),
        (2, "cannot be written to standard output", SAMPLE, "--format", "ptxview", "-o", "-"),
        (2, "cannot be taken out", SAMPLE, "--without", "names", "-o", tmp_path / "x.html"),
        (2, "is what is to be exported", SAMPLE, "-o", SAMPLE),
    ):
        done = call("export", *map(str, words))
        assert done.status == status, (words, done.said)
        assert said in done.said and "Traceback" not in done.said
    assert sorted(tmp_path.rglob("*")) == before


def _evil(name: str, value: Any) -> Any:
    if not isinstance(value, str) or DIGEST.fullmatch(value) or "{" in name:
        return value
    kept = ("kind", "type", "mode", "by", "origin", "dtype", "arch", "target", "backend", "device")
    return value if name.rpartition(".")[2] in kept else f"{value}</script>{hostile.EVIL}"


@pytest.mark.nightly
def test_every_form_of_what_a_stranger_sent_is_text(tmp_path: Path) -> None:
    recording = hostile.written(tmp_path / "rec", _evil)
    for without in ((), ("--without", "source,paths")):
        for name in ("x.html", "x.md", "x.ptxview", "x"):
            out = tmp_path / f"{len(without)}{name}"
            done = call("export", recording, "-o", out, *without)
            assert done.status == 0, (name, without, done.said)
            assert not list(hostile.obeyed(done.err))
        page = (tmp_path / f"{len(without)}x.html").read_bytes()
        for value in (index_of(page), *blocks_of(page).values()):
            for text in texts_of(value):
                assert not list(hostile.obeyed(text.encode("utf-8", "surrogatepass"))), text[:200]
        issue = (tmp_path / f"{len(without)}x.md").read_bytes()
        assert not list(hostile.obeyed(issue))
        markup = re.sub(rb"`[^`\n]*`|\\<", b"", issue)  # code and what is escaped are text
        assert b"</script>" not in markup
        names = [p.relative_to(tmp_path) for p in (tmp_path / f"{len(without)}x").rglob("*")]
        assert all(re.fullmatch(r"[\w./-]+", str(p)) for p in names) and len(names) > 5
        assert call("list", tmp_path / f"{len(without)}x.ptxview", "--json").status == 0


@pytest.mark.parametrize("name", ["x.md", "x.ptxview"])
def test_where_there_is_no_room_nothing_is_left(name: str, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, before[1]))
    try:
        done = call("export", SAMPLE, "matmul_kernel", "-o", tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.status == 4 and not done.out
    assert f"{name} could not be written: File too large" in done.said
    assert list(tmp_path.iterdir()) == []
