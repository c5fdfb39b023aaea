"""AOTInductor's packages are opened as they are: here one that torch 2.13 made (tests/data/aot)."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.recording import cpp_wrapper, output_code
from tests.helpers.ptxview import REPOSITORY, call, printed, tool, variants_of

PACKAGE = REPOSITORY / "tests" / "data" / "aot" / "model.pt2"
MODEL = "model/data/aotinductor/model/"
NAME = "triton_per_fused_gelu_mul_sum_0"
SIGNATURE = {"in_ptr0": "*fp32", "in_ptr1": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32",
             "r0_numel": "i32", "XBLOCK": "constexpr"}  # fmt: skip


def member(ending: str) -> bytes:
    with zipfile.ZipFile(PACKAGE) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(ending))
        return archive.read(name)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKAGE) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "model"


def test_a_package_is_listed_with_its_graph_and_kernels() -> None:
    listed = call("list", PACKAGE, "--json").json
    assert listed["recording"]["problems"] == []
    ((kernel, variant),) = variants_of(listed)
    assert (kernel["name"], kernel["origin"]) == (NAME, "inductor")
    assert variant["stages"] == ["output_code", "sass"] and variant["target"] == "sm_90"
    assert variant["config"]["num_warps"] == 2 and variant["signature"] == SIGNATURE
    (graph,) = listed["graphs"]
    assert graph["id"] == "model" and graph["kernels"] == [kernel["id"]]
    lines = member(".wrapper.cpp").decode().split("\n")
    defined, called = graph["calls"][kernel["id"]]
    assert "async_compile.triton(" in lines[defined - 1]
    assert lines[called - 1].lstrip().startswith(f"call_{NAME}(arg0_1")


def test_its_code_is_shown_and_tied_line_by_line(tmp_path: Path) -> None:
    shown = call("show", PACKAGE, NAME, "--stage", "output_code", "--json").json
    assert "\n".join(x["text"] for x in shown["lines"]) == member(".wrapper.cpp").decode()
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(member(".cubin"))
    sass = call("show", PACKAGE, NAME, "--stage", "sass", "--json").json
    expected = printed(tool("nvdisasm"), "-c", cubin).decode()
    assert "\n".join(x["text"] for x in sass["lines"]).strip() == expected.strip()
    for python, machine in (("libdevice.tanh(tmp11)", "MUFU"), ("tl.sum(tmp18, 1)", "SHFL.BFLY")):
        (line,) = (x for x in shown["lines"] if python in x["text"])
        assert any(machine in sass["lines"][n - 1]["text"] for n in line["links"]["sass"]), python


def test_what_it_unpacks_to_is_the_same(unpacked: Path) -> None:
    for path in (unpacked, unpacked / "data" / "aotinductor" / "model"):
        ((kernel, variant),) = variants_of(call("list", path, "--json").json)
        assert kernel["name"] == NAME and variant["stages"] == ["output_code", "sass"]


def test_a_package_that_lacks_something_shows_the_rest(unpacked: Path) -> None:
    place = unpacked / "data" / "aotinductor" / "model"
    ptx = ".version 9.0\n.target sm_90a\n.address_size 64\n"
    (place / f"{NAME}.ptx").write_text(f"{ptx}.visible .entry {NAME}()\n{{\nret;\n}}\n")
    ((_, variant),) = variants_of(call("list", unpacked, "--json").json)
    assert variant["stages"] == ["output_code", "ptx", "sass"]
    (wrapper,) = place.glob("*.wrapper.cpp")
    wrapper.unlink()
    ((kernel, variant),) = variants_of(call("list", unpacked, "--json").json)
    assert kernel["name"] == NAME and variant["stages"] == ["ptx", "sass"]
    (place / f"{NAME}.cubin").write_bytes(member(".cubin")[:100])
    done = call("list", unpacked)
    assert done.status in (0, 4) and "damaged" in done.said + done.text
    shutil.rmtree(place)
    done = call("list", unpacked)
    assert done.status == 4 and "holds nothing that ptxview knows" in done.said


def test_a_package_from_a_stranger_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret.cubin"
    secret.write_bytes(member(".cubin"))
    place = tmp_path / "model" / "data" / "aotinductor" / "model"
    place.mkdir(parents=True)
    (place / "k.cubin").symlink_to(secret)
    (place.parent / "other").symlink_to(tmp_path)
    assert call("list", tmp_path / "model").status == 4
    packed = tmp_path / "lying.pt2"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../k.cubin", member(".cubin"))
        archive.writestr(f"{MODEL}x.wrapper.cpp", member(".wrapper.cpp"))
    done = call("list", packed, "--json")
    assert not (tmp_path.parent / "k.cubin").exists()
    assert all(v["stages"] == ["output_code"] for _, v in variants_of(done.json))


PARTS = (
    "    async_compile.triton('k', '''", "    ''', device_str='cuda')", "    */", "}", "x",
    "    launchKernel(kernels_.k, a, b, c, 4, 0, d);", "    call_k(x);", "'a': 'b'",
    "'signature': {",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS)))
def test_any_wrapper_is_read(lines: list[str]) -> None:
    text = "\n".join(["#include <torch/csrc/inductor/aoti_runtime/model.h>", *lines])
    kernels = cpp_wrapper.kernels(text)
    assert all(1 <= k.line <= k.last <= text.count("\n") + 1 for k in kernels)
    assert [k.name for k in output_code.parse(text).kernels] == [k.name for k in kernels]
