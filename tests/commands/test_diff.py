"""``diff``: two variants, a kernel's variants, two recordings; forms, refusals, exit statuses."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from inspector.listing.cubin import read_cubin
from inspector.sources import disassembly
from tests.helpers.ptxview import (
    LECTURE,
    MATMUL,
    REPOSITORY,
    SQUARE,
    Done,
    call,
    ptxview,
    write_events,
)

RECORDING = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
PLAIN, WIDE, EIGHT = "a4fe74f3", "780c582c", "9c81a042"  # squares: w4, w4 aligned, w8 aligned
PTX = next(SQUARE.glob("*.ptx"))


def diff(*words: str | Path) -> Done:
    return call("diff", *words)


def both(a: str, b: str, *options: str) -> Any:
    return diff(RECORDING, a, b, "--json", *options).json


def renumbered(text: str) -> str:
    """Every virtual register of PTX under another number."""
    return re.sub(r"%(r|rd|p)(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + 70}", text)


def lines_of(variant: str, stage: str) -> Any:
    return call("show", RECORDING, variant, "--stage", stage, "--json").json


# -- two variants ---------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("a", "b"), [(PLAIN, WIDE), (WIDE, EIGHT), ("ff3a7da2", "290e47d8")])
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


def test_stalls_are_the_sum_of_the_control_words() -> None:
    shown = lines_of(WIDE, "sass")
    (function,) = shown["functions"]
    lines = [x for x in shown["lines"][function["first"] - 1 : function["last"]] if x["control"]]
    while lines[-1]["base"] in ("NOP", "BRA"):
        lines.pop()
    expected = sum(line["control"]["stall"] for line in lines)
    held = {r["name"]: r["a"] for r in both(WIDE, EIGHT)["resources"]}
    assert held["stall_cycles"] == expected > 0


def test_divisible_arguments_explain_wide_loads() -> None:
    found = both(PLAIN, WIDE)
    assert found["config"] == []
    assert found["explanation"][0].startswith(
        "input_row_stride, output_row_stride and n_cols are known to be multiples of 16 in b alone:"
        " 8 → 2 ld.global (4 → 16 bytes wide)"
    )
    assert {"name": "n_cols", "a": "i32", "b": "i32, a multiple of 16"} in found["arguments"]
    rules = {h["rule"] for h in found["hints"]["lost"]}
    assert "narrow-access" in rules
    assert {h["rule"] for h in both(WIDE, PLAIN)["hints"]["gained"]} == rules


@pytest.mark.parametrize("stage", ["source", "ttir", "ttgir", "llir", "ptx", "sass"])
def test_a_variant_is_identical_to_itself_at_every_stage(stage: str) -> None:
    found = both(WIDE, WIDE, "--stage", stage, "--exact")
    assert found["identical"] is True and found["opcodes"] == []
    assert {h["op"] for h in found["hunks"]} == {"equal"}
    assert all(r["a"] == r["b"] for r in found["resources"])


SQUARES = ("a4fe74f3", "9c81a042", "158cd450", "780c582c", "812d5e0d", "f8f8a0a4")
MATMULS = ("ff3a7da2", "290e47d8", "dcff378a")


@pytest.mark.parametrize("stage", ["ptx", "sass"])
@pytest.mark.parametrize("kernels", [SQUARES, MATMULS], ids=["squares", "matmuls"])
def test_no_two_compilations_are_identical(kernels: tuple[str, ...], stage: str) -> None:
    for a, b in combinations(kernels, 2):
        done = diff(RECORDING, a, b, "--stage", stage, "--exit-code", "--json")
        assert done.status == 1, (a, b)
        assert json.loads(done.out)["explanation"], (a, b)


def test_one_source_gives_one_ttir_and_two_ttgir() -> None:
    same = {s: both(WIDE, EIGHT, "--stage", s)["identical"] for s in ("source", "ttir", "ttgir")}
    assert same == {"source": True, "ttir": True, "ttgir": False}


def test_kernels_of_triton_and_nvcc_have_ptx_in_common() -> None:
    found = both(WIDE, "square_matrix_kernel")
    assert found["stage"] == "ptx" and not found["identical"]
    assert {c["name"]: c["b"] for c in found["config"]}["num_warps"] is None


# -- single files ---------------------------------------------------------------------------------


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


def test_a_file_with_a_kernel_more(tmp_path: Path) -> None:
    text = PTX.read_text()
    name = re.search(r"\.entry (\w+)", text)
    assert name is not None
    body = text[text.index(".visible") :]
    two = tmp_path / "two.ptx"
    two.write_text(text + body.replace(name[1], "another"))
    found = diff(PTX, two, "--json").json
    assert {f["b"]: f["identical"] for f in found["functions"]} == {name[1]: True, "another": False}
    assert found["identical"] is False
    assert found["resources"] == [] and found["functions"][0]["resources"] == []
    assert diff(PTX, two, "--exit-code").status == 1
    assert "another: only in b" in diff(PTX, two).text
    assert "- `another`: only in b" in diff(PTX, two, "--markdown").text
    assert diff(two, two, "--exit-code", "--json").json["identical"] is True


@pytest.mark.parametrize(("ending", "stage"), [("ttgir", "ttgir"), ("llir", "llir")])
def test_files_of_other_stages(tmp_path: Path, ending: str, stage: str) -> None:
    file = next(SQUARE.glob(f"*.{ending}"))
    copy = tmp_path / file.name
    shutil.copy(file, copy)
    found = diff(file, copy, "--json").json
    assert (found["stage"], found["identical"]) == (stage, True)
    own = file.read_bytes()
    other = next(f for f in LECTURE.glob(f"triton/*/*.{ending}") if f.read_bytes() != own)
    assert diff(file, other, "--exit-code").status == 1


def test_cubins() -> None:
    a, b = (next(folder.glob("*.cubin")) for folder in (SQUARE, MATMUL))
    assert diff(a, b, "--json").json["stage"] == "ptx"  # -lineinfo left it in the cubin
    found = diff(a, b, "--json", "--stage", "sass").json
    assert found["stage"] == "sass" and found["identical"] is False
    registers = {r["name"]: (r["a"], r["b"]) for r in found["resources"]}["registers"]
    assert None not in registers and registers[0] < registers[1]


def test_a_path_wins_over_a_kernel_of_that_name(tmp_path: Path) -> None:
    shutil.copy(PTX, tmp_path / "square_kernel")
    shutil.move(tmp_path / "square_kernel", tmp_path / "square_kernel.ptx")
    done = ptxview("diff", "square_kernel.ptx", f"{RECORDING}::{WIDE}", "--json", cwd=tmp_path)
    assert done.json["a"]["path"] == "square_kernel.ptx"


def test_a_kernel_in_each_of_two_paths(lecture: Path) -> None:
    found = diff(f"{lecture}::gelu_kernel", f"{RECORDING}::{WIDE}", "--stage", "sass", "--json")
    assert (found.json["a"]["path"], found.json["b"]["path"]) == (str(lecture), str(RECORDING))


# -- for people -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for pair, stages in (
        ((WIDE, EIGHT), ("ptx", "sass", "ttgir", "source")),
        (("ff3a7da2", "290e47d8"), ("sass", "source")),
    ):
        for stage in stages:
            text = diff(RECORDING, *pair, "--width", str(width), "--stage", stage).text
            wide = [line for line in text.splitlines()[2:] if len(line) > width]
            assert not wide, wide[0]


def test_unchanged_stretches_are_folded_and_changes_marked() -> None:
    lines = diff(RECORDING, "290e47d8", "dcff378a", "--width", "160").text.splitlines()
    assert any(re.fullmatch(r"\s+… \d+ equal lines", line) for line in lines)
    (at,) = [n for n, line in enumerate(lines) if ".reqntid" in line]
    assert re.search(r"\d+ ~ \.reqntid 128 +│ *\d+ ~ \.reqntid 256", lines[at])
    assert [m.start() for m in re.finditer(r"\^+", lines[at + 1])] == [
        lines[at].index("128"),
        lines[at].index("256"),
    ]


def test_context_is_how_much_is_left_of_what_is_equal() -> None:
    def equal(context: str) -> int:
        text = diff(RECORDING, WIDE, EIGHT, "--context", context, "--width", "160").text
        return sum(bool(re.match(r" *\d+   ", line)) for line in text.splitlines())

    assert equal("0") < equal("3") < equal("1000")
    whole = diff(RECORDING, WIDE, EIGHT, "--context", "1000").text
    assert "equal lines" not in whole


def test_markdown_is_a_table_and_a_folded_diff() -> None:
    text = diff(RECORDING, WIDE, EIGHT, "--markdown").text
    assert text.startswith("### `square_kernel`: the ptx differs\n")
    assert "| registers | 18 | 14 | -4 |" in text
    assert "- num_warps 4 → 8: half the elements a thread" in text
    assert "\n```diff\n" in text and "\n- .reqntid 128\n+ .reqntid 256\n" in text
    assert text.count("```") == 2 and text.rstrip().endswith("</details>")
    same = diff(RECORDING, WIDE, WIDE, "--markdown").text
    assert same.startswith("### `square_kernel`: the ptx is the same") and "```" not in same


# -- all variants ---------------------------------------------------------------------------------


def test_one_selector_of_several_variants_is_a_table() -> None:
    for words in (
        [f"{RECORDING}::square_kernel"],
        [RECORDING, "square_kernel"],
        [RECORDING, "square_kernel", "--variants"],
    ):
        rows = diff(*words, "--json").json["variants"]
        assert [r["variant"] for r in rows] == [
            "a4fe74f3",
            "9c81a042",
            "158cd450",
            "780c582c",
            "812d5e0d",
            "f8f8a0a4",
        ]
    assert [r["resources"]["registers"] for r in rows] == [22, 14, 12, 18, 18, 20]
    assert {r["time_us"] for r in rows} == {None} and {r["winner"] for r in rows} == {None}
    assert [r["instructions"] for r in rows] == [79, 29, 25, 43, 43, 44]


@pytest.mark.parametrize("key", ["registers", "instructions", "num_warps", "BLOCK_SIZE"])
def test_the_table_is_sorted_by_a_key_and_backwards(key: str) -> None:
    def values(sort: str) -> list[int]:
        words = (f"{RECORDING}::square_kernel", f"--sort={sort}", "--json")
        rows = diff(*words).json["variants"]
        flat = [r["resources"] | r["config"] | {"instructions": r["instructions"]} for r in rows]
        return [r[key] for r in flat]

    assert values(key) == sorted(values(key))
    assert values(f"-{key}") == sorted(values(key), reverse=True)


def test_what_is_not_known_is_a_dash_and_last() -> None:
    text = diff(RECORDING, "square_kernel", "--sort", "time", "--width", "100").text
    assert "–" in text and "a4fe74f3" in text
    narrow = diff(RECORDING, "square_kernel", "--width", "60").text
    assert all(len(line.rstrip()) <= 60 for line in narrow.splitlines())


def test_a_table_of_everything_and_as_markdown() -> None:
    text = diff(RECORDING, "--markdown", "--variants").text
    assert text.count("### `") == 9
    assert "| `9c81a042` | w8 s3 BLOCK_SIZE=1024 | – | 14 | 0 | 0 | 100 % | 29 |" in text


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A recording with a tuning of four configurations, and one of which nothing compiled."""
    data = PTX.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / digest).write_bytes(data)

    def tried(warps: int, hash_: str | None, time: float | None, reason: str | None) -> Any:
        return {
            "config": {"num_warps": warps},
            "hash": hash_,
            "reason": reason,
            "times_ms": None if time is None else [time, time, time],
        }

    def compiled(hash_: str, warps: int) -> Any:
        meta = {"name": "square_kernel", "hash": hash_, "num_warps": warps}
        return {
            "event": "triton",
            "pid": 1,
            "name": "square_kernel",
            "hash": hash_,
            "metadata": meta,
            "files": {"ptx": digest},
            "paths": {},
        }

    one, two = "1" * 64, "2" * 64
    tuning = {
        "event": "autotune",
        "tuning": 0,
        "by": "triton",
        "key": {"n": 1},
        "pid": 1,
        "stopwatch": "do_bench",
        "from_cache": False,
        "seconds": 0.5,
    }
    return write_events(
        tmp_path,
        {"event": "recording", "schema": 1, "command": ["x"], "pid": 1},
        compiled(one, 4),
        compiled(two, 8),
        tuning
        | {
            "name": "square_kernel",
            "file": "",
            "winner": 1,
            "configurations": [
                tried(4, one, 0.020, None),
                tried(8, two, 0.010, None),
                tried(16, None, None, "failed: out of shared memory"),
                tried(32, None, None, "pruned: early_config_prune"),
            ],
        },
        tuning
        | {
            "name": "hopeless",
            "file": "",
            "winner": None,
            "tuning": 1,
            "configurations": [tried(4, None, None, "failed: PTXASError")],
        },
    )


def test_tuned_configurations_with_their_times_the_winner_and_reasons(tuned: Path) -> None:
    rows = diff(tuned, "square_kernel", "--json", "--sort", "time").json["variants"]
    assert [(r["config"]["num_warps"], r["time_us"], r["winner"]) for r in rows] == [
        (8, pytest.approx(10), True),
        (4, pytest.approx(20), False),
        (16, None, None),
        (32, None, None),
    ]
    assert [r["variant"] for r in rows[2:]] == [None, None]
    assert rows[3]["reason"] == "pruned: early_config_prune"
    text = diff(f"{tuned}::square_kernel", "--width", "120").text
    assert re.search(r"\* +2{8} +w8 +10\.0 µs", text)
    assert "failed: out of shared memory" in text


def test_a_kernel_of_which_nothing_compiled_has_a_table_too(tuned: Path) -> None:
    (row,) = diff(tuned, "hopeless", "--json").json["variants"]
    assert (row["variant"], row["reason"], row["resources"]) == (None, "failed: PTXASError", None)
    assert len(diff(tuned, "--variants", "--json").json["variants"]) == 5


def test_measured_times_of_two_variants_are_shown(tuned: Path) -> None:
    found = diff(tuned, "1" * 8, "2" * 8, "--json").json
    times = {r["name"]: (r["a"], r["b"]) for r in found["resources"]}["time_us"]
    assert times == (pytest.approx(20), pytest.approx(10))
    said = "by the tuner's own stopwatch (do_bench): 20.0 → 10.0 µs, 50% less"
    assert said in found["explanation"]


# -- two recordings -------------------------------------------------------------------------------


def states(*words: str | Path) -> dict[str, Counter[str]]:
    out: dict[str, Counter[str]] = {}
    for pair in diff(*words, "--json").json["pairs"]:
        out.setdefault(pair["kernel"], Counter())[pair["state"]] += 1
    return out


def test_a_recording_is_the_same_as_itself() -> None:
    found = diff(RECORDING, RECORDING, "--json", "--exit-code").json
    assert found["identical"] is True
    assert {p["state"] for p in found["pairs"]} == {"same"} and len(found["pairs"]) == 16
    assert all(p["resources"] == [] for p in found["pairs"])
    text = diff(RECORDING, RECORDING).text
    assert "16 variants: 16 the same" in text


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


def test_changes_have_the_resources_of_both_sides(caches: tuple[Path, Path]) -> None:
    a, b = caches
    squares = [f for f in sorted(b.iterdir()) if list(f.glob("square_kernel.cubin"))]
    one, other = squares[0], squares[1]
    for ending in ("ptx", "cubin"):
        shutil.copy(other / f"square_kernel.{ending}", one / f"square_kernel.{ending}")
    changed = [p for p in diff(a, b, "--json").json["pairs"] if p["state"] == "changed"]
    assert len(changed) == 1 and changed[0]["kernel"] == "square_kernel"
    held = {r["name"]: (r["a"], r["b"]) for r in changed[0]["resources"]}
    assert held["registers"][0] != held["registers"][1]
    assert all(a != b for a, b in held.values())


def test_what_a_cubin_has_beside_machine_code_is_no_change(caches: tuple[Path, Path]) -> None:
    a, b = caches
    cubin = next((b / SQUARE.name).glob("*.cubin"))
    cubin.write_bytes(cubin.read_bytes() + b"of the linker's\0")
    assert set().union(*states(a, b).values()) == {"same"}


def test_other_machine_code_of_one_ptx_is_a_change(caches: tuple[Path, Path]) -> None:
    a, b = caches
    cubin = next((b / SQUARE.name).glob("*.cubin"))
    data = cubin.read_bytes()
    known = read_cubin(data)
    assert known is not None
    (code,) = known.code.values()
    cubin.write_bytes(data.replace(code, code[:32] + code[16:32] + code[48:]))
    assert sum(states(a, b).values(), Counter())["changed"] == 1


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((f"{RECORDING}::square_kernel", f"{RECORDING}::{WIDE}"), "fits 6 variants"),
        ((RECORDING, WIDE, "nobody"), "no kernel or variant is called nobody"),
        ((RECORDING, f"{RECORDING}:{WIDE}", EIGHT), f"Did you mean {RECORDING}::{WIDE}?"),
        ((RECORDING, WIDE), "fits one variant"),
        ((RECORDING, "square_kernel", "--sort", "beauty"), "nothing is called beauty"),
        (("nowhere", WIDE, EIGHT), "nowhere does not exist"),
        ((RECORDING, WIDE, "square_matrix_kernel", "--stage", "ttir"), "there is no ttir"),
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


def test_a_missing_stage_names_those_that_there_are() -> None:
    done = diff(RECORDING, WIDE, "square_matrix_kernel", "--stage", "ttir")
    assert "Both have source, ptx, sass." in done.said


@pytest.mark.parametrize(
    "words", [(), ("a", "b", "c", "d"), ("--context=-1", "a"), ("--json", "--markdown", "a")]
)
def test_usage(words: tuple[str, ...]) -> None:
    assert diff(*words).status == 2


def test_damaged_input_is_4(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cubin"
    bad.write_bytes(b"\x7fELF" + b"\0" * 14 + b"\xbe\x00" + b"\0" * 30)
    assert diff(bad, PTX).status == 4


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\1\2", b".entry", b"\xff\xfe.visible .entry f(\n{{{{\n", b"}" * 4000],
    ids=["empty", "binary", "word", "braces", "ends"],
)
def test_damaged_ptx_is_compared_or_refused(tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.ptx"
    bad.write_bytes(content)
    for words in ((bad, PTX), (PTX, bad), (bad, bad)):
        for form in ((), ("--json",), ("--markdown",), ("--exact",)):
            assert diff(*words, *form).status in (0, 4)


# -- what made them -----------------------------------------------------------------------------


def remade(tmp_path: Path, **tools: str) -> Path:
    """The lecture's recording, as if other versions had made it."""
    folder = tmp_path / "-".join(tools)
    with zipfile.ZipFile(RECORDING) as archive:
        archive.extractall(folder)
    for file in folder.glob("events*.jsonl"):
        events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for event in events:
            if event.get("event") == "tools":
                event["tools"] |= tools
            elif event.get("event") == "torch":
                event["version"] = tools.get("torch", event["version"])
            elif event.get("event") == "triton" and "triton" in tools:
                event["metadata"]["triton_version"] = tools["triton"]
        file.write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    return folder


def test_different_versions_are_a_cause(tmp_path: Path) -> None:
    other = remade(tmp_path, triton="3.9.0", torch="2.13.0", ptxas="12.9.86")
    found = diff(f"{RECORDING}::{PLAIN}", f"{other}::{WIDE}", "--json").json
    # The recording did not say which ptxas it was, and torch has no part in a Triton kernel.
    assert found["versions"] == [{"name": "triton", "a": "3.6.0", "b": "3.9.0"}]
    assert found["explanation"][0] == "triton 3.6.0 → 3.9.0"
    same = diff(f"{RECORDING}::{WIDE}", f"{other}::{WIDE}", "--json").json
    assert same["explanation"][0].startswith("triton 3.6.0 → 3.9.0: the ptx is the same")


def test_generated_kernels_have_torchs_version_too(tmp_path: Path) -> None:
    other = remade(tmp_path, torch="2.13.0")
    kernels = call("list", RECORDING, "--json").json["kernels"]
    made = [k for k in kernels if k["origin"] == "inductor"]
    name = made[0]["variants"][0]["id"]
    found = diff(f"{RECORDING}::{name}", f"{other}::{name}", "--json").json
    assert found["versions"] == [{"name": "torch", "a": "2.11.0+cu130", "b": "2.13.0"}]


def test_assembler_of_a_cubin_is_named(tmp_path: Path) -> None:
    # A cubin of CUDA 12 does not name its assembler: the recording's is shown.
    a = remade(tmp_path / "a", ptxas="12.8.93")
    b = remade(tmp_path / "b", ptxas="12.9.86")
    found = diff(f"{a}::{WIDE}", f"{b}::{WIDE}", "--json").json
    assert found["versions"] == [{"name": "ptxas", "a": "12.8.93", "b": "12.9.86"}]
    # CUDA 13's can not have written it.
    b = remade(tmp_path / "c", ptxas="13.0.88")
    assert diff(f"{a}::{WIDE}", f"{b}::{WIDE}", "--json").json["versions"] == []


def test_versions_of_tritons_assemblers_are_those_that_they_print() -> None:
    import triton

    folder = Path(triton.__file__).parent
    printed = {
        tool.name: subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
        for tool in (folder / "backends" / "nvidia" / "bin").glob("ptxas*")
    }
    told = disassembly.versions(str(folder))
    assert told and set(told) == set(printed)
    for name, version in told.items():
        assert f"V{version}\n" in printed[name].stdout
