"""``show``: texts byte for byte, lines by the contract, selectors and their refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inspector.commands import common
from inspector.system import printing
from tests.helpers.hostile import on_pty
from tests.helpers.nightly import first_by_day
from tests.helpers.ptxview import LECTURE, MATMUL, SQUARE, Done, call, printed, tool

CUBINS = sorted(LECTURE.glob("triton/*/*.cubin"))
TEXTS = [
    (folder, stage)
    for folder in sorted({c.parent for c in CUBINS})
    for stage in ("ttir", "ttgir", "llir", "ptx")
    if list(folder.glob(f"*.{stage}"))
]

ENTRY = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel() {
ret;
}
"""


def hash_of(folder: Path) -> str:
    """The hash that Triton's metadata of a folder names."""
    path = next(p for p in folder.glob("*.json") if not p.name.startswith("__grp__"))
    return str(json.loads(path.read_bytes())["hash"])


def joined(shown: Any) -> bytes:
    """The text that the lines of a ``show --json`` make."""
    return "\n".join(line["text"] for line in shown["lines"]).encode("utf-8", "surrogateescape")


@pytest.fixture(scope="module")
def matmul(lecture: Path) -> Done:
    """The matmul's PTX with its SASS beside it."""
    return call("show", lecture, hash_of(MATMUL)[:12], "--beside", "sass", "--json")


@pytest.mark.parametrize(("folder", "stage"), TEXTS, ids=lambda v: getattr(v, "name", v)[:6])
def test_text_is_the_files_byte_for_byte(lecture: Path, folder: Path, stage: str) -> None:
    expected = next(folder.glob(f"*.{stage}")).read_bytes()
    digest = hash_of(folder)
    assert call("show", lecture, digest, "--stage", stage).out == expected
    shown = call("show", lecture, digest, "--stage", stage, "--json").json
    assert joined(shown) == expected
    assert [line["n"] for line in shown["lines"]] == list(range(1, len(shown["lines"]) + 1))


@pytest.mark.parametrize("cubin", first_by_day(CUBINS), ids=lambda p: str(p.parent.name[:6]))
def test_sass_is_that_of_nvdisasm(lecture: Path, cubin: Path) -> None:
    expected = printed(tool("nvdisasm"), "-c", cubin)
    digest = hash_of(cubin.parent)
    assert call("show", lecture, digest, "--stage", "sass").out == expected
    assert joined(call("show", lecture, digest, "--stage", "sass", "--json").json) == expected


def test_links_are_mutual_between_ptx_and_sass(matmul: Done) -> None:
    ptx, sass = matmul.json, matmul.json["beside"]
    down = {(line["n"], n) for line in ptx["lines"] for n in line["links"].get("sass", ())}
    up = {(n, line["n"]) for line in sass["lines"] for n in line["links"].get("ptx", ())}
    assert down and down == up
    # What nvdisasm -gp says of a wgmma or mma joins like with like.
    heads = {line["n"]: line for line in ptx["lines"]}
    tails = {line["n"]: line for line in sass["lines"]}
    stores = {heads[a]["base"] for a, b in down if tails[b]["base"] == "STG"}
    assert stores == {"st"}


def test_several_variants_are_a_usage_error_with_the_choices(lecture: Path) -> None:
    done = call("show", lecture, "square_kernel")
    assert done.status == 2 and not done.out
    for folder in (SQUARE, SQUARE.parent / "OK4EUQE2MU5PWGVYT7FNFJ6JAOY4MHAHUVOPB6PJ2BFX3BWLZPFQ"):
        assert hash_of(folder)[:8] in done.said


def test_stage_that_is_not_there_is_unreadable_with_the_reason(lecture: Path) -> None:
    done = call("show", lecture, "matmul_kernel", "--stage", "llir")
    assert done.status == 4 and "llir" in done.said and not done.out


@pytest.mark.parametrize("name", ["nofile.cubin", "folder/nofile.ptx", "nofile.so", "x.ptxview"])
def test_a_file_that_does_not_exist_is_said_not_to(name: str) -> None:
    done = call("show", name)
    assert done.status == 4 and not done.out
    assert f"{name} does not exist" in done.said


OPTIX = """\
.version 7.8
.target sm_75
.address_size 64
.visible .entry __raygen__rg()
{
	.reg .b32 %r<3>;
	call (%r1), _optix_get_launch_index_x, ();
	call (%r2), _optix_get_launch_index_y, ();
	ret;
}
"""


def test_ptx_of_optix_is_no_fault_of_ptxas(tmp_path: Path) -> None:
    path = tmp_path / "optix.ptx"
    path.write_text(OPTIX)
    (function,) = call("show", path, "--json").json["functions"]
    (note,) = function["notes"]
    assert (note["rule"], note["severity"]) == ("ptxas-note", "info")
    assert "OptiX" in note["text"] and function["resources"]["registers"] is None


def test_the_advice_for_large_ptx_names_its_own_target(tmp_path: Path) -> None:
    path = tmp_path / "large.ptx"
    path.write_text(
        OPTIX.replace("sm_75", "sm_100a").replace("_optix_", "other_") + "//\n" * 400_000
    )
    assert "--device sm_100a" in call("show", path).said


def test_many_lines_are_printed_on_a_terminal_only_if_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    replies = iter(("", "y"))

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(replies)

    monkeypatch.setattr(printing, "answer", answer)
    assert common.confirmed(658_517), "a pipe gets everything"
    monkeypatch.setattr(printing, "to_terminal", lambda: True)
    monkeypatch.setattr(printing, "at_terminal", lambda: True)
    assert common.confirmed(1_000) and not asked
    assert not common.confirmed(658_517)
    assert "--lines" in capsys.readouterr().err
    assert common.confirmed(658_517)
    assert all("658,517 lines" in prompt for prompt in asked)


@pytest.mark.parametrize(
    "view",
    [(), pytest.param(("-a",), marks=pytest.mark.nightly), ("--beside", "sass")],
    ids=" ".join,
)
def test_many_lines_are_not_printed_on_a_terminal_where_nobody_answers(
    tmp_path: Path, view: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MAX_UNASKED_LINES", 5_000)
    text = ENTRY.replace("ret;", "// comment\n" * 6_000 + "ret;")
    path = tmp_path / "large.ptx"
    path.write_text(text)
    sent = on_pty("show", path, *view).said
    assert "lines were not printed: --lines" in sent
    assert sent.count("// comment") < 10
    assert on_pty("show", path, *view, "--lines", "5:200").said.count("// comment") > 100
    assert call("show", path, *view).out.count(b"// comment") >= 6_000, "a pipe gets everything"


def test_a_large_cubin_is_said_to_take_time_where_it_is_disassembled(tmp_path: Path) -> None:
    path = tmp_path / "large.cubin"
    path.write_bytes(CUBINS[0].read_bytes() + b"\0" * (9 << 20))
    assert "9 MB of machine code" in call("show", path, "--stage", "sass").said
    assert call("show", path, "--brief", "--json").json["hints"] is not None


def test_a_list_does_not_wait_for_the_hints_of_a_large_cubin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "large.cubin"
    path.write_bytes(CUBINS[0].read_bytes() + b"\0" * (9 << 20))
    done = call("list", path, "--json")
    (kernel,) = done.json["kernels"]
    (variant,) = kernel["variants"]
    assert variant["hints"] is None
    assert variant["resources"]["registers"] is not None
    assert "machine code" not in done.said
    path.write_bytes(CUBINS[0].read_bytes())
    (kernel,) = call("list", path, "--json").json["kernels"]
    assert kernel["variants"][0]["hints"] is not None
    assert "MB of machine code" not in call("show", CUBINS[0]).said
