"""The emulated device's parts that need no torch: the table, cubins, PTX, nvcc's flags."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from inspector.probes import emulator as device
from inspector.probes.emulator import cudart, devices, writes

PACKAGE = Path(devices.__file__).parent
ARCHITECTURES = [75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121]


def test_every_architecture_has_its_limits_and_sources() -> None:
    assert list(devices.table()) == [f"sm_{n}" for n in ARCHITECTURES]
    for name, row in devices.table().items():
        device = devices.find(name)
        assert row["source"] and row["device_source"]
        assert device.shared_per_block < device.shared_per_block_optin <= device.shared_per_sm
        assert device.max_threads_per_sm == row["max_warps_per_sm"] * device.warp_size
        assert "no GPU" in device.name and device.name != device.device
    assert devices.find("sm_90a").device == devices.find("sm_90").device
    with pytest.raises(ValueError, match="sm_42"):
        devices.find("sm_42")


@pytest.mark.parametrize(
    ("target", "capability"), [("sm_75", (7, 5)), ("sm_90a", (9, 0)), ("sm_120", (12, 0))]
)
def test_capability_of_a_target(target: str, capability: tuple[int, int]) -> None:
    assert device.read_settings(target).capability == capability


def test_invalid_cubin_has_no_resources() -> None:
    nothing = devices.Binary(0, 0, 0, None)
    assert (
        devices.read_binary(b"", "k")
        == devices.read_binary(b"\x7fELF\x02" + bytes(80), "k")
        == nothing
    )


PTX = """
.version 8.7
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 0;
.global .align 8 .b8 table[16];
.func (.param .b64 result) chosen(.param .b64 chosen_param_0) {
    ld.param.b64 %rd20, [chosen_param_0];
    st.param.b64 [result], %rd20;
    ret;
}
.visible .entry k(
    .param .u64 .ptr .global .align 1 k_param_0, .param .u64 k_param_1,
    .param .u32 k_param_2, .param .u64 k_param_3, .param .align 64 .b8 k_param_4[128]
) .reqntid 128 {
    .reg .pred %p<3>;
    .loc 1 2 0  // here; there
    ld.param.b64 %rd1, [k_param_0];  // the output
    .loc 1 3 0 // here
$L__tmp0:
    ld.param.b64 %rd2, [k_param_1];
    ld.param.b32 %r1, [k_param_2];
    ld.param.b64 %rd3, [k_param_3];
$L__BB0_1:
    mad.wide.s32 %rd4, %r1, 4, %rd1;
    add.s64 %rd5, %rd4, 16;
    ld.global.b32 %r2, [%rd2+8];
    mul.wide.s32 %rd6, %r2, 4;
    setp.ne.s64 %p1, %rd3, 0;
    selp.b64 %rd7, %rd6, 8, %p1;
    add.s64 %rd8, %rd5, %rd7;
    @%p1 st.global.v2.b32 [%rd8], {%r2, %r2};
    MORE
    bra.uni $L__BB0_1;
}
.visible .entry other(.param .u64 other_param_0) {
    ld.param.b64 %rd1, [other_param_0];
    ld.param.b64 %rd9, [other_param_0];
    st.global.b32 [%rd1], 1;
}
"""


@pytest.mark.parametrize(
    ("lines", "direct", "behind"),
    [
        ("", "", {}),
        ("atom.global.add.u32 %r3, [%rd3], 1;", "k_param_3", {}),
        ("ld.global.b64 %rd9, [%rd3]; st.b32 [%rd9], 1;", "", {"k_param_3": 1}),
        (
            "ld.global.v2.b64 {%rd8, %rd9}, [%rd3]; ld.b64 %rd10, [%rd9]; st.b32 [%rd10], 1;",
            "",
            {"k_param_3": 2},
        ),
        ("cvt.u64.u32 %rd9, %r2; add.s64 %rd9, %rd9, %rd3; st.b8 [%rd9], 1;", "k_param_3", {}),
        ("st.shared.b64 [%r1], %rd3; ld.shared.b64 %rd9, [%r1]; st.b8 [%rd9], 1;", "k_param_3", {}),
        (
            "{ st.param.b64 [a], %rd3; call.uni (r), chosen, (a); ld.param.b64 %rd9, [r]; }"
            "st.b8 [%rd9], 1;",
            "k_param_3",
            {},
        ),
        (
            "mov.b64 %rd9, k_param_4; cvta.param.u64 %rd10, %rd9;"
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {%r1, %r2}], [%r3];",
            "k_param_4",
            {},
        ),
        (
            "mov.b32 %r8, k_param_4; cvt.u64.u32 %rd9, %r8; cvta.param.u64 %rd10, %rd9;"
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {%r1, %r2}], [%r3];",
            "k_param_4",
            {},
        ),
        (
            "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %rd3;"
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];",
            "k_param_3",
            {},
        ),
        ("mov.u64 %rd9, counter; atom.global.add.u32 %r3, [%rd9], 1;", "counter", {}),
        ("st.global.b32 [table+4], 1;", "table", {}),
    ],
)
def test_written_memory_follows_from_ptx(lines: str, direct: str, behind: dict[str, int]) -> None:
    text = PTX.replace("MORE", lines)
    found = writes.written(text, "k")
    assert found.direct == {"k_param_0", *direct.split()} and found.behind == behind
    assert writes.parameters(text, "k") == [f"k_param_{n}" for n in range(5)]
    assert writes.variables(text) == ["counter", "table"]
    assert writes.used(text, "k", ["counter", "table"]) == direct.split()[: "param" not in direct]


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("plain_c", "plain_c"),
        ("_Z8by_value6AffinePKfi", "by_value"),
        ("_ZL7of_filePfi", "of_file"),
        ("_ZN1n4fillIfEEvPT_", "fill"),
        ("_ZN51_GLOBAL__N__fe2d5bd4_7_many_cu_8c4f2ae1_97726hidden6hiddenEPf", "hidden"),
        ("_Z6packedIdLi3EJifxEEvPT_DpT1_", "packed"),
    ],
)
def test_kernels_are_called_by_their_base_names(mangled: str, name: str) -> None:
    assert cudart.base_name(mangled) == name


def test_the_package_imports_neither_torch_nor_triton_at_its_head() -> None:
    files = list(PACKAGE.glob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heads = {name.split(".")[0] for name in names}
            assert not heads & {"torch", "triton", "numpy", "inspector"}, file.name
