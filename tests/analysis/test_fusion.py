"""What a generated kernel was made from: Inductor's comments, the graphs, the operations."""

from pathlib import Path

from inspector.analysis.links import model_lines
from inspector.base.model import Fusion, MadeFrom, Recording, Stage
from inspector.parsers import output_code, parse
from inspector.reader.reader import Reader
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent, DerivedCache
from tests.analysis.test_links import KNOWN

DATA = Path(__file__).parent.parent / "data" / "analysis"
FRAME: dict[str, object] = {"pid": 1, "frame_id": 0, "frame_compile_id": 0}
NAME = "triton_per_fused_add_mul_native_layer_norm_relu_sin_sum_0"
MODEL = "/home/user/two.py"


def blob(name: str) -> BytesContent:
    """A sample as content."""
    return BytesContent((DATA / name).read_bytes())


def recording(*names: str) -> Recording:
    """Events as the probes write them, of the graphs that are named."""
    kinds = {
        "dynamo.txt": "dynamo_output_graph",
        "forward_post_grad.txt": "inductor_post_grad_graph",
    }
    events: list[dict[str, object]] = [
        {"event": "graph_text", "kind": kinds[n], "blob": blob(n), **FRAME} for n in names
    ]
    events.append({"event": "user_file", "path": MODEL, "blob": blob("two.py")})
    events.append({"event": "graph", "blob": blob("forward.py"), **FRAME})
    path = "/home/user/inductor/xk/whatever.py"
    found = output_code.parse_code((DATA / "forward.py").read_text()).kernels[0]
    events.append(
        {
            "event": "triton",
            "name": NAME,
            "hash": "ab" * 32,
            "files": {"ptx": BytesContent(b"//")},
            "source": {"file": found.path or path},
            "metadata": {},
        }
    )
    return Assembly(lambda value: value if isinstance(value, BytesContent) else None).recording(
        "x", events
    )


def test_a_kernel_knows_its_operators_and_lines() -> None:
    for names in (("dynamo.txt", "forward_post_grad.txt"), ("forward_post_grad.txt",)):
        (kernel,) = recording(*names).kernels
        assert kernel.fusion is not None
        assert [(m.file, m.line) for m in kernel.fusion.made_from] == [
            (MODEL, 9),
            (MODEL, 10),
            (MODEL, 11),
        ]
        assert kernel.fusion.made_from[0].targets == ("aten.sin.default", "aten.mul.Tensor")
        assert kernel.fusion.unplaced == ()
        (variant,) = kernel.variants
        assert variant.stages[Stage.SOURCE].origin_path == MODEL
        assert variant.lines_in(Stage.SOURCE) == (9, 11)
        assert variant.lines_in(Stage.OUTPUT_CODE) != (9, 11)


def test_a_model_line_reaches_the_lines_that_may_compute_it(tmp_path: Path) -> None:
    made = recording("dynamo.txt", "forward_post_grad.txt")
    reader = Reader(made, DerivedCache(tmp_path))
    variant = made.kernels[0].variants[0]
    down = reader.stages.links(variant, Stage.SOURCE, Stage.OUTPUT_CODE)
    up = reader.stages.links(variant, Stage.OUTPUT_CODE, Stage.SOURCE)
    texts = [line.text.strip() for line in reader.stages.listing(variant, Stage.OUTPUT_CODE).lines]
    by_text = {texts[n - 1]: lines for n, lines in up.items()}
    assert by_text["tmp1 = tl_math.sin(tmp0)"] == (9,)
    assert by_text["tmp32 = triton_helpers.maximum(tmp31, tmp30)"] == (11,)
    assert by_text["tmp24 = libdevice.rsqrt(tmp23)"] == (10,)
    assert 9 in by_text["tmp2 = tmp1 * tmp0"] and 11 not in by_text["tmp2 = tmp1 * tmp0"]
    launch = next(n for n, text in enumerate(texts, 1) if text.startswith(f"{NAME}.run("))
    assert up[launch] == (9, 10, 11) and all(launch in down[n] for n in (9, 10, 11))
    assert {(a, b) for a, bs in down.items() for b in bs} == {
        (b, a) for a, bs in up.items() for b in bs
    }


def test_an_unknown_operator_may_be_anywhere() -> None:
    body = ["def k(a):", "tmp0 = tl.load(a)", "tmp1 = tl_math.sin(tmp0)", "tmp2 = tmp1 * tmp0"]
    body.append("tl.store(a, tmp2)")
    text = "\n".join(["k = async_compile.triton('k', '''", "\n    ".join(body), "'''"])
    code = parse(Stage.OUTPUT_CODE, text)
    sure = MadeFrom("m.py", 1, "", ("aten.sin.default",))
    odd = MadeFrom("m.py", 2, "", ("mylib.strange.default",))
    fusion = Fusion((), (sure, odd), (), (1,))
    found = model_lines(code, (1, 7), fusion, "m.py", KNOWN)
    assert found == dict.fromkeys((1, 2, 3, 4), (1, 2)) | {5: (2,), 6: (2,)}
    # What Inductor added itself may be of any line.
    added = Fusion((), (sure, MadeFrom("m.py", 3, "", ("aten.mul.Tensor",))), ("aten.mul.Tensor",))
    found = model_lines(code, (1, 7), added, "m.py", KNOWN)
    assert found[4] == (1,) and found[5] == (1, 3)


def test_a_graph_from_a_cache_does_not_name_another_programs_lines() -> None:
    """Inductor's cache gives the graph as it was printed when the cache was filled."""
    stale = (DATA / "forward_post_grad.txt").read_text()
    stale = stale.replace(MODEL, "/elsewhere/old.py").replace(".py:9 ", ".py:109 ")
    events: list[dict[str, object]] = [
        {"event": "graph_text", "kind": "dynamo_output_graph", "blob": blob("dynamo.txt"), **FRAME},
        {
            "event": "graph_text",
            "kind": "inductor_post_grad_graph",
            "blob": BytesContent(stale.encode()),
            **FRAME,
        },
        {"event": "graph", "blob": blob("forward.py"), **FRAME},
    ]
    made = Assembly(lambda value: value if isinstance(value, BytesContent) else None)
    (kernel,) = made.recording("x", events).kernels
    assert kernel.fusion is not None
    assert [(m.file, m.line) for m in kernel.fusion.made_from] == [
        (MODEL, 9),
        (MODEL, 10),
        (MODEL, 11),
    ]


TEMPLATE = """\
def triton_tem_fused_mm_relu_0(arg_A, arg_B, out_ptr0):
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for k_idx in range(0, 16):
        a = tl.load(A + xindex)
        acc += tl.dot(a, b)
    tmp0 = tl.maximum(0.0, acc)
    tl.store(out_ptr0 + xindex, tmp0, mask)
"""


def test_the_body_of_a_template_is_of_its_product_and_its_epilogue_of_another_line() -> None:
    product = MadeFrom("m.py", 1, targets=("aten.permute.default", "aten.mm.default"))
    fusion = Fusion(made_from=(product, MadeFrom("m.py", 2, targets=("aten.relu.default",))))
    code = parse(Stage.OUTPUT_CODE, TEMPLATE)
    lines = model_lines(code, (1, 7), fusion, "m.py", KNOWN)
    assert {n: lines[n] for n in (2, 4, 5)} == {2: (1,), 4: (1,), 5: (1,)}
    assert {n: lines[n] for n in (6, 7)} == {6: (2,), 7: (2,)}
