"""``show``: texts byte for byte, lines by the contract, selectors and their refusals."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import EXTENSION, LECTURE, MATMUL, SQUARE, Done, call, printed, tool

CUBINS = sorted(LECTURE.glob("triton/*/*.cubin"))
TEXTS = [
    (folder, stage)
    for folder in sorted({c.parent for c in CUBINS})
    for stage in ("ttir", "ttgir", "llir", "ptx")
    if list(folder.glob(f"*.{stage}"))
]
LINE: dict[str, type | tuple[type, ...]] = {
    "n": int,
    "text": str,
    "kind": str,
    "base": (str, type(None)),
    "opcode": (str, type(None)),
    "defs": list,
    "uses": list,
    "source": (dict, type(None)),
    "links": dict,
    "live": (dict, type(None)),
    "control": (dict, type(None)),
    "notes": list,
}
KINDS = {"instruction", "label", "directive", "comment", "blank", "unknown"}


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


@pytest.mark.parametrize("cubin", CUBINS, ids=lambda p: str(p.parent.name[:6]))
def test_sass_is_that_of_nvdisasm(lecture: Path, cubin: Path) -> None:
    expected = printed(tool("nvdisasm"), "-c", cubin)
    digest = hash_of(cubin.parent)
    assert call("show", lecture, digest, "--stage", "sass").out == expected
    assert joined(call("show", lecture, digest, "--stage", "sass", "--json").json) == expected


def test_sass_of_the_extension_is_that_of_nvdisasm(lecture: Path, tmp_path: Path) -> None:
    words = [tool("cuobjdump"), "-xelf", "all", str(EXTENSION / "cuda.cuda.o")]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    (cubin,) = tmp_path.glob("*.cubin")
    expected = printed(tool("nvdisasm"), "-c", cubin)
    for name in ("gelu_kernel", "square_matrix_kernel"):
        shown = call("show", lecture, name, "--stage", "sass", "--json").json
        assert joined(shown) == expected, "the lines are the whole file's"
        own = [f for f in shown["functions"] if name in f["kernel"]]
        assert len(own) == 1 and len(shown["functions"]) == 2
        part = [line["text"] for line in shown["lines"][own[0]["first"] - 1 : own[0]["last"]]]
        assert any("EXIT" in text for text in part)


def test_output_code_is_the_graphs_text(lecture: Path) -> None:
    expected = next((LECTURE / "inductor" / "e5").glob("*.py")).read_bytes()
    assert call("show", lecture, "0/0", "--stage", "output_code").out == expected
    digest = "36bcee4c"
    assert call("show", lecture, digest, "--stage", "output_code").out == expected
    shown = call("show", lecture, digest, "--stage", "output_code", "--json").json
    assert joined(shown) == expected
    graph = call("show", lecture, "0/0", "--json").json
    assert joined(graph) == expected and graph["stage"] == "output_code"


def test_kernel_is_in_output_code_where_its_file_says(lecture: Path) -> None:
    kernel_file = next((LECTURE / "inductor" / "zs").glob("*.py")).read_text()
    shown = call("show", lecture, "36bcee4c", "--stage", "output_code", "--json").json
    (function,) = shown["functions"]
    part = [line["text"] for line in shown["lines"][function["first"] - 1 : function["last"]]]
    # The graph quotes the kernel's file; its first line follows the opening quotes.
    quoted = kernel_file.rstrip("\n").split("\n")
    assert part[1 : len(quoted)] == quoted[1:]


def test_lines_have_the_fields_of_the_contract(matmul: Done) -> None:
    for shown in (matmul.json, matmul.json["beside"]):
        assert shown["text_from"]
        for line in shown["lines"]:
            for name, kind in LINE.items():
                assert isinstance(line[name], kind), name
            assert line["kind"] in KINDS
            for note in line["notes"]:
                assert note.keys() == {"rule", "severity", "text"}
            source = line["source"]
            while source is not None:
                assert source.keys() == {"file", "line", "column", "inlined_at"}
                assert isinstance(source["line"], int)
                source = source["inlined_at"]
    assert matmul.json["schema"] == 1
    assert (matmul.json["stage"], matmul.json["beside"]["stage"]) == ("ptx", "sass")


def test_function_names_its_kernel_variant_and_figures(matmul: Done) -> None:
    for shown in (matmul.json, matmul.json["beside"]):
        (function,) = shown["functions"]
        assert function["kernel"] == "matmul_kernel"
        assert function["variant"] == hash_of(MATMUL)[:8]
        assert function["resources"]["registers"] == 72
        assert function["notes"] == []
        assert 1 <= function["first"] < function["last"] <= len(shown["lines"])


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


def test_sources_are_those_that_the_ptx_says(matmul: Done) -> None:
    files = dict(
        re.findall(
            r'^\s*\.file\s+(\d+)\s+"([^"]+)"', next(MATMUL.glob("*.ptx")).read_text(), re.MULTILINE
        )
    )
    told = {line["source"]["file"] for line in matmul.json["lines"] if line["source"]}
    assert told
    for name in told:
        assert any(Path(f).name == Path(name).name for f in files.values())


def test_several_variants_are_a_usage_error_with_the_choices(lecture: Path) -> None:
    done = call("show", lecture, "square_kernel")
    assert done.status == 2 and not done.out
    for folder in (SQUARE, SQUARE.parent / "OK4EUQE2MU5PWGVYT7FNFJ6JAOY4MHAHUVOPB6PJ2BFX3BWLZPFQ"):
        assert hash_of(folder)[:8] in done.said


@pytest.mark.parametrize("selector", ["matmul_kernel", "matmul*", "f69047", "matmul_kernel#1"])
def test_selectors_of_one_variant(lecture: Path, selector: str) -> None:
    assert call("show", lecture, selector).out == next(MATMUL.glob("*.ptx")).read_bytes()


def test_numbered_selector_counts_variants_of_the_name(lecture: Path) -> None:
    texts = {call("show", lecture, f"square_kernel#{n}").out for n in (1, 2)}
    expected = {p.read_bytes() for p in LECTURE.glob("triton/*/square_kernel.ptx")}
    assert texts == expected
    assert call("show", lecture, "square_kernel#3").status == 2
    assert call("show", lecture, "square_kernel#0").status == 2


def test_unknown_kernel_names_its_neighbour(lecture: Path) -> None:
    done = call("show", lecture, "matmul_kernal")
    assert done.status == 2 and "matmul_kernel" in done.said


def test_kernel_without_variants_points_at_its_graph(lecture: Path) -> None:
    done = call("show", lecture, "triton_poi_fused_add_mul_tanh_0")
    assert done.status == 2 and "1/0" in done.said


def test_stage_that_is_not_there_is_unreadable_with_the_reason(lecture: Path) -> None:
    done = call("show", lecture, "matmul_kernel", "--stage", "llir")
    assert done.status == 4 and "llir" in done.said and not done.out


def test_unknown_stage_is_a_usage_error(lecture: Path) -> None:
    assert call("show", lecture, "matmul_kernel", "--stage", "asm").status == 2


def test_default_is_ptx_else_the_lowest_stage(lecture: Path) -> None:
    shown = call("show", lecture, "gelu_kernel", "--json").json
    assert shown["stage"] == "sass"
    assert call("show", lecture, "matmul_kernel", "--json").json["stage"] == "ptx"


def test_beside_prints_both_texts(lecture: Path) -> None:
    done = call("show", lecture, "819a78df", "--beside", "sass")
    assert done.status == 0
    assert "ld.global" in done.text and "LDG" in done.text


def test_source_of_the_extension_is_the_files(lecture: Path) -> None:
    shown = call("show", lecture, "gelu_kernel", "--stage", "source", "--json").json
    assert joined(shown) == (EXTENSION / "cuda.cu").read_bytes()
    (function,) = shown["functions"]
    lines = [line["text"] for line in shown["lines"]]
    assert lines[function["first"] - 1].startswith("__global__ void gelu_kernel")
    assert lines[function["last"] - 1] == "}"


@pytest.mark.parametrize(
    "path", sorted(p for p in SQUARE.iterdir() if p.suffix in (".ptx", ".ttir", ".ttgir", ".llir"))
)
def test_single_text_files_open(path: Path) -> None:
    value = call("list", path, "--json").json
    (kernel,) = value["kernels"]
    assert (kernel["name"], kernel["origin"]) == ("square_kernel", "file")
    assert kernel["variants"][0]["stages"] == [path.suffix[1:]]
    assert call("show", path).out == path.read_bytes()
    assert call("show", path, "square_kernel").out == path.read_bytes()


def test_single_cubin_and_object_open(lecture: Path) -> None:
    cubin = next(SQUARE.glob("*.cubin"))
    value = call("list", cubin, "--json").json
    (kernel,) = value["kernels"]
    assert kernel["variants"][0]["resources"]["registers"] == 18
    expected = printed(tool("nvdisasm"), "-c", cubin)
    assert call("show", cubin, "--stage", "sass").out == expected
    value = call("list", lecture / "ext" / "square_gelu" / "cuda.cuda.o", "--json").json
    assert {k["variants"][0]["resources"]["registers"] for k in value["kernels"]} == {20, 10}


def test_object_without_its_build_opens_too(tmp_path: Path) -> None:
    copy = tmp_path / "alone.o"
    copy.write_bytes((EXTENSION / "cuda.cuda.o").read_bytes())
    value = call("list", copy, "--json").json
    assert {k["variants"][0]["resources"]["registers"] for k in value["kernels"]} == {20, 10}
    for kernel in value["kernels"]:
        assert "unknown" in kernel["variants"][0]["missing"]["ptx"]


def instructions(text: str) -> list[list[str]]:
    """The instructions of a PTX text, without comments and places."""
    lines = (line.split("//")[0].split() for line in text.splitlines())
    return [w for w in lines if w and w[-1].endswith(";") and not w[0].startswith(".")]


def test_cubin_alone_shows_the_ptx_that_its_debug_section_keeps() -> None:
    done = call("show", next(SQUARE.glob("*.cubin")), "--stage", "ptx")
    # ptxas keeps the instructions, and neither comments nor places.
    assert instructions(done.text) == instructions(next(SQUARE.glob("*.ptx")).read_text())
