"""A graph's calls from recorded values of any make: paths of modules, large graphs, odd types."""

import pytest

from inspector.analysis.graph_view import buffer_bytes, graph_view, module_path
from inspector.parsers.output_code import parse_wrapper


@pytest.mark.parametrize(
    ("paths", "plain"),
    [
        (["L['self']"], ""),
        (
            ["L['self']", "L['self'].layers.3", "L['self'].layers.3.mlp.gate_proj"],
            "layers.3.mlp.gate_proj",
        ),
        (["L['self'].layers[3].mlp"], "layers.3.mlp"),
        (["L['self']._modules['layers']._modules['3']"], "layers.3"),
        (["getattr(getattr(L['self'].layers, '3').mlp, '0').norm"], "layers.3.mlp.0.norm"),
        (["L['model'].layers.0"], "model.layers.0"),
        (
            ["L__self___layers_3", "L__self___layers_3_mlp", "L__self___layers_3_mlp_gate_proj"],
            "layers.3.mlp.gate_proj",
        ),
    ],
)
def test_dynamos_names_of_modules_are_made_plain(paths: list[str], plain: str) -> None:
    assert module_path(paths) == plain


WRAPPER = """# AOT ID: ['0_inference']
triton_poi_fused_mul_0 = async_compile.triton('triton_poi_fused_mul_0', '''
    fake.run(buf9)
''', device_str='cuda')
my_kernel_0 = async_compile.triton('my_kernel', '''
''', device_str='cuda')
def call(args):
        buf0 = empty_strided_cuda((4, 8), (8, 1), torch.float16)
        # Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.mm]
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        buf1 = buf0; del buf0  # reuse
        # Topologically Sorted Source Nodes: [c], Original ATen: [aten.mul, aten.add]
        triton_poi_fused_mul_0.run(buf1, arg2_1, 32, stream=stream0)
        # Topologically Sorted Source Nodes: [d], Original ATen: [aten.convolution]
        buf2 = extern_kernels.convolution(buf1, arg3_1, stride=(1, 1))
        assert_size_stride(buf2, (4, 8), (8, 1), 'torch.ops.aten.convolution.default')
        # Topologically Sorted Source Nodes: [e], Original ATen: [_c10d_functional.all_reduce]
        torch.ops._c10d_functional.all_reduce_.default(buf2, 'sum', '0')
        buf3 = torch.ops._c10d_functional.wait_tensor.default(buf2)
        buf4 = empty_strided_cuda((s0, 8), (8, 1), torch.float32)
        my_kernel_0.run(buf3, buf4, 8, stream=stream0)
        buf5 = torch.ops.aten._scaled_dot_product_flash_attention.default(buf3, buf3, buf4)
        return (buf5, )
def benchmark_compiled_module(times=10, repeat=10):
    arg0_1 = rand_strided((4, 8), (8, 1), device='cuda:0', dtype=torch.float16)
"""


def test_calls_and_buffers_are_in_wrapper_order() -> None:
    view = graph_view(parse_wrapper(WRAPPER), None, None, {13: "k0"}, {"k0": 128})
    assert [(call.name, call.extern) for call in view.calls] == [
        ("mm", True),
        ("triton_poi_fused_mul_0", False),
        ("convolution", True),
        ("_c10d_functional.all_reduce_", True),
        ("_c10d_functional.wait_tensor", True),
        ("my_kernel_0", False),
        ("_scaled_dot_product_flash_attention", True),
    ]
    assert view.calls[1].operators == ("aten.mul", "aten.add")
    assert (view.calls[1].kernel, view.calls[1].bytes, view.calls[1].bytes_from) == (
        "k0",
        128,
        "tensors",
    )
    assert view.calls[0].bytes is None and view.calls[0].bytes_from is None
    assert view.calls[1].reuses == (("buf1", "buf0"),)
    assert [(b.name, b.reuses, buffer_bytes(b)) for b in view.buffers] == [
        ("buf0", None, 64),
        ("buf1", "buf0", 64),
        ("buf4", None, None),
    ]
    assert not view.recorded and not view.refused


def test_a_name_that_may_be_the_backward_graphs_own_is_not_taken_for_dynamos() -> None:
    nodes = [{"name": name, "op": "call_function", "module": 0} for name in "ac"]
    dynamo = {"stacks": [{"paths": ["L['self'].proj"]}], "nodes": nodes}
    for ambiguous, modules in (((), [("proj",), ("proj",)]), ("c", [("proj",), ()])):
        view = graph_view(parse_wrapper(WRAPPER), None, dynamo, {}, {}, ambiguous)
        assert [call.modules for call in view.calls[:2]] == modules
