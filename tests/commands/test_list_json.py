"""``list --json``: the contract's fields, and figures that are the vendor's own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.helpers.ptxview import EXTENSION, MATMUL, SQUARE, Done, call, printed, tool, variants_of
from tests.helpers.tools import needs


def usage(file: Path) -> dict[str, dict[str, int]]:
    """``cuobjdump -res-usage`` of a file, by function, asked by this test itself."""
    text = printed(tool("cuobjdump"), "-res-usage", file).decode()
    out = {}
    for name, figures in re.findall(r"Function (\S+):\s+(REG:.*)", text):
        out[name] = {k: int(v) for k, v in re.findall(r"([A-Z]+):(\d+)", figures)}
    return out


def variant(listed: Done, folder: Path) -> Any:
    """The variant that came from a folder of Triton's cache."""
    return next(v for _, v in variants_of(listed.json) if v["cache_key"] == folder.name)


def test_hash_target_and_configuration_are_those_of_tritons_metadata(listed: Done) -> None:
    for folder in (SQUARE, MATMUL):
        path = next(p for p in folder.glob("*.json") if not p.name.startswith("__grp__"))
        metadata = json.loads(path.read_bytes())
        found = variant(listed, folder)
        assert found["hash"] == metadata["hash"]
        assert found["target"] == "sm_90a", "as in PTX's .target, which metadata does not say"
        assert found["config"] == {
            k: metadata[k] for k in ("num_warps", "num_stages", "num_ctas", "maxnreg")
        }
        assert found["resources"]["dynamic_shared_bytes"] == metadata["shared"]


@needs("c++filt")
def test_extension_has_two_kernels_with_20_and_10_registers(listed: Done) -> None:
    found = {k["name"]: (k, v) for k, v in variants_of(listed.json) if k["origin"] == "nvcc"}
    assert {
        k["demangled"].split("(")[0]: v["resources"]["registers"] for k, v in found.values()
    } == {"gelu_kernel": 20, "square_matrix_kernel": 10}
    said = usage(EXTENSION / "cuda.cuda.o")
    for name, (_, each) in found.items():
        assert each["resources"]["registers"] == said[name]["REG"]
        assert each["resources"]["stack_bytes"] == said[name]["STACK"]
        assert each["resources"]["static_shared_bytes"] == said[name]["SHARED"]
        assert each["stages"] == ["source", "sass"]
        assert each["target"] == "sm_90a"


def test_inductor_kernels_are_tied_to_their_graphs(listed: Done) -> None:
    value = listed.json
    kernels = {k["id"]: k for k in value["kernels"]}
    pow_kernel = kernels["triton_poi_fused_pow_0"]
    assert pow_kernel["origin"] == "inductor"
    assert len(pow_kernel["variants"]) == 2
    for each in pow_kernel["variants"]:
        assert "output_code" in each["stages"]
    assert kernels["triton_poi_fused_add_mul_tanh_0"]["variants"] == [], "its cache was taken away"


def test_pickles_are_never_loaded(listed: Done, exploded: Path, lecture: Path) -> None:
    assert listed.status == 0
    assert call("list", lecture / "inductor").status == 0
    assert not exploded.exists()


def test_doctor_says_what_it_found_and_what_each_lack_costs() -> None:
    value = call("doctor", "--json").json
    assert value["schema"] == 1
    tools = {t["name"]: t for t in value["tools"]}
    assert set(tools) == {"nvdisasm", "cuobjdump", "ptxas", "nvcc", "c++filt", "ncu"}
    for each in tools.values():
        assert each["for"] and each["get"]
        for found in each["found"]:
            assert Path(found["path"]).is_file()
            assert found["version"] is None or re.fullmatch(r"\d+(\.\d+)+", found["version"])
            assert found["found_in"]
    assert value["gpu_present"] is False and value["gpu"] is None
    assert re.fullmatch(r"3\.\d+\.\d+\S*", value["python"]["python"])
    plain = call("doctor")
    assert plain.status == 0
    for name in tools:
        assert name in plain.text
