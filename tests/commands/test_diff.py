"""``diff``: two variants, a kernel's variants, two recordings; forms, refusals, exit statuses."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nightly import first_by_day, nightly
from tests.helpers.ptxview import LECTURE, MATMUL, SAMPLE, SQUARE, Done, call

PLAIN, WIDE, EIGHT = "a4fe74f3", "780c582c", "9c81a042"  # squares: w4, w4 aligned, w8 aligned
PTX = next(SQUARE.glob("*.ptx"))


def diff(*words: str | Path) -> Done:
    return call("diff", *words)


def both(a: str, b: str, *options: str) -> Any:
    return diff(SAMPLE, a, b, "--json", *options).json


def renumbered(text: str) -> str:
    """Every virtual register of PTX under another number."""
    return re.sub(r"%(r|rd|p)(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + 70}", text)


def lines_of(variant: str, stage: str) -> Any:
    return call("show", SAMPLE, variant, "--stage", stage, "--json").json


def test_json_has_the_fields_of_the_contract() -> None:
    found = both(WIDE, EIGHT)
    assert list(found)[:7] == ["schema", "a", "b", "stage", "identical", "functions", "hunks"]
    assert (found["schema"], found["stage"], found["identical"]) == (1, "ptx", False)
    assert (found["a"]["variant"], found["b"]["variant"]) == (WIDE, EIGHT)
    assert found["functions"] == [{"a": "square_kernel", "b": "square_kernel", "identical": False}]
    assert {"name": "registers", "a": 18, "b": 14} in found["resources"]
    assert {"opcode": "ld.global.v4.b32", "a": 2, "b": 1} in found["opcodes"]
    assert {"cost": "memory", "a": 9, "b": 7} in found["costs"]
    assert {"kind": "load", "space": "global", "width": 16, "a": 2, "b": 1} in found["accesses"]
    assert found["config"] == [{"name": "num_warps", "a": 4, "b": 8}]
    assert found["source"] == {"only_a": 0, "only_b": 0}
    assert found["first_difference"] == "ttgir"
    assert found["explanation"][0] == (
        "num_warps 4 → 8: half the elements a thread (8 → 4): 2 → 1 ld.global, 2 → 1 st.global, "
        "18 → 14 registers, 43 → 29 PTX instructions"
    )


@pytest.mark.parametrize(("a", "b"), [(PLAIN, WIDE), nightly("ff3a7da2", "290e47d8")])
@pytest.mark.parametrize("stage", ["ptx", "sass", "ttgir"])
def test_counts_and_hunks_are_those_of_the_listings(a: str, b: str, stage: str) -> None:
    found = both(a, b, "--stage", stage)
    shown = [lines_of(one, stage) for one in (a, b)]
    counts = []
    for one in shown:
        (function,) = one["functions"]
        counts.append(
            Counter(
                line["opcode"]
                for line in one["lines"][function["first"] - 1 : function["last"]]
                if line["kind"] == "instruction" and line["opcode"] is not None
            )
        )
    padding = {"NOP", "BRA"} if stage == "sass" else set()
    expected = {
        (o, counts[0][o], counts[1][o])
        for o in counts[0] | counts[1]
        if counts[0][o] != counts[1][o] and o not in padding
    }
    told = {(o["opcode"], o["a"], o["b"]) for o in found["opcodes"]}
    assert {t for t in told if t[0] not in padding} == expected
    for side, one in (("a", shown[0]), ("b", shown[1])):
        held = sorted(h[side] for h in found["hunks"] if h[side][0] < h[side][1])
        covered = [n for first, end in held for n in range(first, end)]
        assert covered == list(range(covered[0], covered[-1] + 1))
        assert covered[0] >= 1 and covered[-1] <= len(one["lines"])
    for hunk in found["hunks"]:
        assert hunk["op"] in ("equal", "moved", "replace", "delete", "insert")


@pytest.mark.parametrize("stage", ["source", "ttgir", "sass"])
def test_a_variant_is_identical_to_itself_at_every_stage(stage: str) -> None:
    found = both(WIDE, WIDE, "--stage", stage, "--exact")
    assert found["identical"] is True and found["opcodes"] == []
    assert {h["op"] for h in found["hunks"]} == {"equal"}
    assert all(r["a"] == r["b"] for r in found["resources"])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A file of PTX, the same renumbered, and the same with one operand changed."""
    text = PTX.read_text()
    named = [tmp_path / name for name in ("a.ptx", "b.ptx", "c.ptx")]
    changed = text.replace("mul.f32", "add.f32", 1)
    assert changed != text
    for path, content in zip(named, (text, renumbered(text), changed), strict=True):
        path.write_text(content)
    return named[0], named[1], named[2]


def test_a_renumbered_file_is_identical_and_a_changed_one_is_not(
    files: tuple[Path, Path, Path],
) -> None:
    a, b, c = files
    assert diff(a, b, "--json").json["identical"] is True
    assert diff(a, b, "--exit-code").status == 0
    assert diff(a, b, "--exact", "--exit-code").status == 1
    assert diff(a, c, "--json").json["identical"] is False
    assert diff(a, c).status == 0
    assert diff(a, c, "--exit-code").status == 1
    assert diff(a, c, "--exit-code", "--json").status == 1
    assert "ptx: identical" in diff(a, b).text
    assert "mul.f32" in diff(a, c).text and "add.f32" in diff(a, c).text


@pytest.mark.parametrize("width", first_by_day([80, 160]))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for first, second, stage in (
        (WIDE, EIGHT, "ptx"),
        (WIDE, EIGHT, "sass"),
        (WIDE, EIGHT, "ttgir"),
        (WIDE, EIGHT, "source"),
        ("ff3a7da2", "290e47d8", "sass"),
        ("ff3a7da2", "290e47d8", "source"),
    ):
        text = diff(SAMPLE, first, second, "--width", str(width), "--stage", stage).text
        lines = text.splitlines()[2:]
        assert lines, (first, second, stage)
        wide = [line for line in lines if len(line) > width]
        assert not wide, wide[0]


def test_markdown_is_a_table_and_a_folded_diff() -> None:
    text = diff(SAMPLE, WIDE, EIGHT, "--markdown").text
    assert text.startswith("### `square_kernel`: the ptx differs\n")
    assert "| registers | 18 | 14 | -4 |" in text
    assert "- num_warps 4 → 8: half the elements a thread" in text
    assert "\n```diff\n" in text and "\n- .reqntid 128\n+ .reqntid 256\n" in text
    assert text.count("```") == 2 and text.rstrip().endswith("</details>")
    same = diff(SAMPLE, WIDE, WIDE, "--markdown").text
    assert same.startswith("### `square_kernel`: the ptx is the same") and "```" not in same


def test_a_name_of_several_kernels_asks_which(tmp_path: Path) -> None:
    text = PTX.read_text("utf-8")
    for name in ("x", "y"):
        (tmp_path / f"{name}.ptx").write_text(text.replace("%tid.x", f"%tid.{name}"), "utf-8")
    done = diff(tmp_path, "square_kernel")
    assert done.status == 2 and "name one of them" in done.said


def test_one_selector_of_several_variants_is_a_table() -> None:
    for words in (
        [f"{SAMPLE}::square_kernel"],
        [SAMPLE, "square_kernel"],
        [SAMPLE, "square_kernel", "--variants"],
    ):
        rows = diff(*words, "--json").json["variants"]
        assert [r["variant"] for r in rows][:3] == ["a4fe74f3", "9c81a042", "158cd450"]
    assert [r["resources"]["registers"] for r in rows] == [22, 14, 12, 18, 18, 20]
    assert {r["time_us"] for r in rows} == {None} and {r["winner"] for r in rows} == {None}
    assert [r["instructions"] for r in rows] == [79, 29, 25, 43, 43, 44]


@pytest.mark.parametrize("key", ["registers", "num_warps"])
def test_the_table_is_sorted_by_a_key_and_backwards(key: str) -> None:
    def values(sort: str) -> list[int]:
        words = (f"{SAMPLE}::square_kernel", f"--sort={sort}", "--json")
        rows = diff(*words).json["variants"]
        flat = [r["resources"] | r["config"] | {"instructions": r["instructions"]} for r in rows]
        return [r[key] for r in flat]

    assert values(key) == sorted(values(key))
    assert values(f"-{key}") == sorted(values(key), reverse=True)


def test_tuned_configurations_with_their_times_and_the_winner() -> None:
    rows = diff(SAMPLE, "matmul_kernel", "--json", "--sort", "time").json["variants"]
    told = [(r["variant"], r["winner"]) for r in rows]
    assert told == [("ff3a7da2", True), ("290e47d8", False), ("dcff378a", False)]
    times = [r["time_us"] for r in rows]
    assert times == sorted(times) and times[0] == pytest.approx(8.29, abs=0.01)
    text = diff(f"{SAMPLE}::matmul_kernel", "--width", "120").text
    assert re.search(r"\* +ff3a7da2 +w4 .* 8\.29 µs", text)


def states(*words: str | Path) -> dict[str, Counter[str]]:
    out: dict[str, Counter[str]] = {}
    for pair in diff(*words, "--json").json["pairs"]:
        out.setdefault(pair["kernel"], Counter())[pair["state"]] += 1
    return out


@pytest.fixture
def caches(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of Triton's cache."""
    out = tmp_path / "before", tmp_path / "after"
    for copy in out:
        shutil.copytree(LECTURE / "triton", copy)
    return out


def test_added_removed_changed_and_renumbered(caches: tuple[Path, Path]) -> None:
    a, b = caches
    kept = list(a.glob("*/*.ptx"))
    matmul, square = a / MATMUL.name, b / SQUARE.name
    shutil.rmtree(matmul)
    ptx = next(square.glob("*.ptx"))
    ptx.write_text(renumbered(ptx.read_text()))
    assert states(a, b)["matmul_kernel"] == {"added": 1}
    assert states(b, a)["matmul_kernel"] == {"removed": 1}
    assert set().union(*states(a, b).values()) == {"added", "same"}
    assert len(diff(a, b, "--json").json["pairs"]) == len(kept)
    assert set().union(*states(a, b, "--exact").values()) >= {"changed"}
    ptx.write_text(ptx.read_text().replace("mul.f32", "add.f32", 1))
    assert states(a, b)["square_kernel"]["changed"] == 1
    assert diff(a, b, "--exit-code").status == 1
    assert "added" in diff(a, b, "--markdown").text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"{SAMPLE}::square_kernel", f"{SAMPLE}::{WIDE}"), "fits 6 variants"),
        ((SAMPLE, f"{SAMPLE}:{WIDE}", EIGHT), f"Did you mean {SAMPLE}::{WIDE}?"),
        ((SAMPLE, WIDE), "fits one variant"),
        ((SAMPLE, WIDE, "square_matrix_kernel", "--stage", "ttir"), "there is no ttir"),
        ((PTX, next(SQUARE.glob("*.ttir"))), "have no stage in common"),
        ((WIDE, EIGHT), "there is no recording yet"),
    ],
)
def test_what_cannot_be_meant(
    words: tuple[str | Path, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # others may have recorded something
    done = diff(*words)
    assert (done.status, done.out) == (2, b"")
    assert said in done.said


@pytest.mark.parametrize("pair", [(PLAIN, WIDE), (WIDE, EIGHT), (PLAIN, "a7c93eac")])
def test_sides_differ_within_the_width_of_a_column(pair: tuple[str, str]) -> None:
    a, b = diff(SAMPLE, *pair, "--summary").text.split("\n")[:2]
    assert (a[:2], b[:2]) == ("a ", "b ") and a[2:37] != b[2:37]
    if pair == (WIDE, EIGHT):
        assert "w4" in a[:37] and "w8" in b[:37]
