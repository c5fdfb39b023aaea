"""AOTInductor's packages are opened as they are: here one that torch 2.13 made (tests/data/aot)."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import REPOSITORY, call, printed, saved, tool, variants_of
from tests.helpers.tools import needs

PACKAGE = REPOSITORY / "tests" / "data" / "aot" / "model.pt2"
MODEL = "model/data/aotinductor/model/"
NAME = "triton_per_fused_gelu_mul_sum_0"
SIGNATURE = {
    "in_ptr0": "*fp32",
    "in_ptr1": "*fp32",
    "out_ptr0": "*fp32",
    "xnumel": "i32",
    "r0_numel": "i32",
    "XBLOCK": "constexpr",
}


def member(ending: str, package: Path = PACKAGE) -> bytes:
    with zipfile.ZipFile(package) as archive:
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
    cubin = saved(tmp_path / "k.cubin", member(".cubin"))
    sass = call("show", PACKAGE, NAME, "--stage", "sass", "--json").json
    expected = printed(tool("nvdisasm"), "-c", cubin).decode()
    assert "\n".join(x["text"] for x in sass["lines"]).strip() == expected.strip()
    for python, machine in (("libdevice.tanh(tmp11)", "MUFU"), ("tl.sum(tmp18, 1)", "SHFL.BFLY")):
        (line,) = (x for x in shown["lines"] if python in x["text"])
        assert any(machine in sass["lines"][n - 1]["text"] for n in line["links"]["sass"]), python


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
    secret = saved(tmp_path / "secret.cubin", member(".cubin"))
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


EMBEDDED, MULTI = PACKAGE.with_name("embedded.pt2"), PACKAGE.with_name("multi_arch.pt2")


def listed_alone(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The only kernel and its only variant."""
    document = call("list", path, "--json").json
    assert document["recording"]["problems"] == []
    ((kernel, variant),) = variants_of(document)
    assert kernel["name"] == NAME and variant["target"] in ("sm_90", "sm_90a")
    return kernel, variant


def cubin_between(symbols: bytes, library: bytes) -> bytes:
    """The bytes from a symbol to another by what ``nm`` and ``readelf`` say of them."""
    places = {
        name: int(at, 16)
        for at, _, name in (r.split() for r in symbols.decode().split("\n") if NAME in r)
    }
    return library[places[f"__{NAME}_start"] : places[f"__{NAME}_end"]]


@needs("gcc", "strip", "nm", "readelf")
def test_cubins_within_an_object_or_a_library_are_found(tmp_path: Path) -> None:
    """As torch 2.13 makes them with embed_kernel_binary, in an object and linked by gcc."""
    kernel, variant = listed_alone(EMBEDDED)
    assert variant["stages"] == ["output_code", "sass"] and variant["signature"] == SIGNATURE
    assert variant["config"]["num_warps"] == 2 and kernel["origin"] == "inductor"
    shown = call("show", EMBEDDED, NAME, "--stage", "output_code", "--json").json
    (line,) = (x for x in shown["lines"] if "libdevice.tanh(tmp11)" in x["text"])
    sass = call("show", EMBEDDED, NAME, "--stage", "sass", "--json").json["lines"]
    assert any("MUFU" in sass[n - 1]["text"] for n in line["links"]["sass"])

    item, library = tmp_path / "cubins.o", tmp_path / "model.wrapper.so"
    item.write_bytes(member("cubins_combined.o", EMBEDDED))
    # The object's read-only data begins at the section's place in the file.
    (row,) = (r for r in printed("readelf", "-SW", item).decode().split("\n") if ".rodata" in r)
    data = int(row.split("PROGBITS")[1].split()[1], 16)
    cubin = cubin_between(printed("nm", item), item.read_bytes()[data:])
    assert variant["hash"] == hashlib.sha256(cubin).hexdigest()
    subprocess.run(["gcc", "-shared", "-nostdlib", item, "-o", library], check=True)
    bare = tmp_path / "bare.so"
    shutil.copy(library, bare)
    library.with_suffix(".cpp").write_bytes(member(".wrapper.cpp", EMBEDDED))
    for path, stages in ((item, ["sass"]), (bare, ["sass"]), (library, variant["stages"])):
        assert listed_alone(path)[1]["stages"] == stages
        assert listed_alone(path)[1]["hash"] == variant["hash"]
    # Without symbols nobody can tell where they are, and weights are no kernels.
    subprocess.run(["strip", "--strip-unneeded", bare], check=True)
    assert listed_alone(bare)[1]["stages"] == ["sass"], "the dynamic symbols are left"
    weights = saved(tmp_path / "weights.o", member("weights.o", EMBEDDED))
    done = call("list", weights)
    assert done.status == 4 and "holds no CUDA device code" in done.said


def test_fat_binaries_are_taken_apart(tmp_path: Path) -> None:
    """As torch 2.13 makes them with emit_multi_arch_kernel, beside the PTX."""
    _, variant = listed_alone(MULTI)
    assert variant["stages"] == ["output_code", "ptx", "sass"]
    fat = saved(tmp_path / "k.fatbin", member(".fatbin", MULTI))
    subprocess.run([tool("cuobjdump"), "-xelf", "all", fat], cwd=tmp_path, check=True)
    (cubin,) = tmp_path.glob("*.cubin")
    assert variant["hash"] == hashlib.sha256(cubin.read_bytes()).hexdigest()
    ptx = call("show", MULTI, NAME, "--stage", "ptx").out
    assert ptx == member(".ptx", MULTI)
