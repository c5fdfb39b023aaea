"""``show KERNEL --prompt``: never more than so many tokens, the most telling first."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from inspector.report.prompt import tokens
from tests.helpers import byte_pairs
from tests.helpers.ptxview import REPOSITORY, call

RECORDED = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
KERNELS = ["softmax_kernel", "290e47d8", "gelu_kernel", "ba6e6b76", "square_loop_kernel"]
ROW = re.compile(r"^ *(\d+)(?: (.*))?$")


def prompt(kernel: str, most: int | None = None, path: Path = RECORDED) -> str:
    options = [] if most is None else ["--tokens", str(most)]
    done = call("show", path, kernel, "--prompt", *options)
    assert done.status == 0, done.said
    return done.text


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("most", [300, 1000, 4000, 16000])
def test_it_is_never_more_than_asked_for(kernel: str, most: int) -> None:
    text = prompt(kernel, most)
    assert byte_pairs.count(text) <= tokens(text) <= most
    assert text.startswith("# ") and text.count("\n## ") >= 1
    if most >= 4000:
        assert (
            tokens(text) > most // 2
            or "Nothing of the kernel is left out" in text
            or ("Left out: all of" in text)
        )  # what there was room for is there


def test_tokens_are_counted_so_that_a_tokenizer_comes_to_less() -> None:
    """Line by line, over prose, Python, CUDA, IR, PTX and SASS."""
    texts = byte_pairs.taught().split("\n")
    worst = max(texts, key=lambda line: byte_pairs.count(line) - tokens(line))
    assert byte_pairs.count(worst) <= tokens(worst), worst
    assert sum(map(byte_pairs.count, texts)) * 1.1 < sum(map(tokens, texts))
    # No tokenizer makes more of a byte than one token: what is not ASCII counts as bytes.
    for odd in ("é☃𝄞" * 9, "\udcff\udc80", "\x1b\x00\x7f", "1234567890" * 5, "%$#@" * 9):
        assert tokens(odd) >= len(odd.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_it_says_of_code_is_the_code(kernel: str) -> None:
    text = prompt(kernel, 12000)
    parts = re.split(r"^## (\w+)[^\n]*\n\n```\w*\n", text, flags=re.MULTILINE)
    told = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert told
    for stage, part in told.items():
        if stage in ("Figures", "Hints"):
            continue
        lines = call("show", RECORDED, kernel, "--stage", stage).text.split("\n")
        for row in part.split("\n```")[0].splitlines():
            matched = ROW.match(row)
            if matched is None:
                assert row.startswith("… ")
                continue
            code = lines[int(matched[1]) - 1].strip()
            assert (matched[2] or "").strip().startswith(code), (stage, row)


def test_the_most_telling_comes_first() -> None:
    short = call("show", RECORDED, "softmax_kernel", "--brief", "--json").json
    text = prompt("softmax_kernel")
    order = [text.index(word) for word in ("## Figures", "## Hints", "## source", "## ptx")]
    assert order == sorted(order)
    for hint in short["hints"]:
        assert hint["text"] in text and hint["rule"] in text
        for n in hint["lines"].get("ptx", ())[:2]:
            assert re.search(rf"^ *{n} ", text, re.MULTILINE), "the line that it was seen on"
    peak = next(one for one in short["hottest"] if one["by"] == "registers")
    assert f"{peak['live']} registers live, the peak" in text
    small = prompt("softmax_kernel", 700)
    assert "## Figures" in small and short["hints"][0]["rule"] in small
    assert "Left out:" in small and "of ptx" in small


def test_what_is_folded_and_left_out_is_counted() -> None:
    text = prompt("290e47d8", 4000)
    listed = call("show", RECORDED, "290e47d8", "--json").json
    (function,) = listed["functions"]
    own = [line for line in listed["lines"] if function["first"] <= line["n"] <= function["last"]
           and line["opcode"]]  # fmt: skip
    part = text.split("\n## ptx", 1)[1].split("\n## ", 1)[0]
    shown = {int(m[1]) for line in part.splitlines() if (m := ROW.match(line))}
    folded = sum(int(n.replace(",", "")) for n in re.findall(r": ([\d,]+) instructions?", part))
    missing = [line for line in own if line["n"] not in shown]
    assert folded == len(missing) > 0
    said = re.search(r"([\d,]+) of (\d+) instructions of ptx", text)
    assert said is not None
    assert (int(said[1].replace(",", "")), int(said[2])) == (len(missing), len(own))
    command = re.search(r"Lines of a stage: (.*)", text)
    assert command is not None
    words = command[1].replace(" S ", " ptx ").replace("A:B", "40:44").split()
    assert call(*words[1:]).text == "".join(f"{line['text']}\n" for line in listed["lines"][39:44])


def test_with_more_tokens_no_less_is_told() -> None:
    counts = [
        len([line for line in prompt("290e47d8", most).splitlines() if ROW.match(line)])
        for most in (1000, 2000, 4000, 8000, 32000)
    ]
    assert counts == sorted(counts) and counts[0] < counts[-1]
    whole = prompt("softmax_kernel", 200_000)
    assert "instructions of ptx" not in whole and "left out" in whole.lower()


def test_what_a_stranger_wrote_neither_breaks_out_nor_makes_it_longer(tmp_path: Path) -> None:
    evil = tmp_path / "evil.ptx"
    body = "\n".join(f"// ```\n    add.s32 %r1, %r1, {n}; // `````` \x1b[31m‮é" for n in range(300))
    evil.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k" + "é" * 3000
        + "()\n{\n.reg .b32 %r<4>;\n" + body + "\n" + "`" * 500 + "\nret;\n}\n", "utf-8",
    )  # fmt: skip
    for most in (300, 900, 5000):
        done = call("show", evil, "--prompt", "--tokens", str(most))
        assert done.status == 0 and tokens(done.text) <= most
        assert "\x1b" not in done.text and "‮" not in done.text
        fences = [line for line in done.text.splitlines() if re.fullmatch(r"(`{3,})\w*", line)]
        assert len(fences) % 2 == 0
        if fences:
            mark = fences[-1]
            inside = done.text.split(f"{mark}ptx\n", 1)[1].rsplit(f"\n{mark}\n", 1)[0]
            assert mark not in inside


REFUSED = [["--tokens", "299"], ["--tokens", "x"], ["--tokens", "-1"], ["--json"], ["--brief"],
           ["--beside", "ttir"], ["-a"]]  # fmt: skip


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_does_not_go_with_it_is_refused(words: list[str]) -> None:
    done = call("show", RECORDED, "softmax_kernel", "--prompt", *words)
    assert done.status == 2 and not done.out
    assert call("show", RECORDED, "softmax_kernel", "--tokens", "900").status == 2
    assert call("show", RECORDED, "0/0", "--prompt").status == 2


def test_a_great_kernel_takes_time_in_proportion(tmp_path: Path) -> None:
    took = []
    for many in (4000, 16000):
        body = "\n".join(f"    add.s32 %r{n % 90 + 1}, %r{n % 90}, {n};" for n in range(many))
        path = tmp_path / f"{many}.ptx"
        path.write_text(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n"
            f"    .reg .b32 %r<99>;\n$L:\n{body}\n    bra $L;\n}}\n"
        )
        begun = time.process_time()
        assert tokens(call("show", path, "--prompt").text) <= 4000
        took.append(time.process_time() - begun)
    assert took[1] < 12 * took[0] + 1
