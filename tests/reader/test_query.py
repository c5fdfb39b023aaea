"""What the screen shows of a kernel chooses it; queries that cannot be read."""

import pytest
from msgspec.structs import replace

from inspector.analysis.graph_view import NodeOrigin
from inspector.base.errors import UsageError
from inspector.base.model import (
    Argument,
    Call,
    Fusion,
    Kernel,
    MadeFrom,
    Origin,
    Recording,
    Variant,
)
from inspector.reader.graphs import GraphReader
from inspector.reader.query import folded, has_word, parse, select, select_launched


@pytest.mark.parametrize("word", ["regs>many", "regs>", "shared<=x"])
def test_the_error_for_a_comparison_without_a_number_shows_the_form(word: str) -> None:
    with pytest.raises(UsageError, match="needs a number after it") as error:
        parse(word)
    assert "regs>128" in error.value.hint


def kernel(
    name: str, number: int, line: int, sizes: tuple[int, ...], launches: tuple[int, ...] = (1,)
) -> Kernel:
    made_from = MadeFrom(f"/m/{name}.py", line, "x = a @ b", ("aten.mm.default",))
    call = Call("triton", name, arguments=(Argument("out_ptr0", shape=sizes),))
    variants = tuple(
        Variant(f"{number}{n}", f"{number}{n}" * 16, name, launches=count or None, calls=(call,))
        for n, count in enumerate(launches)
    )
    fusion = Fusion(("aten.mm",), (made_from,))
    return Kernel(name, name, name, Origin.INDUCTOR, variants, fusion=fusion, number=number)


RECORDING = Recording(
    path="r.ptxview",
    kernels=(
        kernel("triton_tem_fused_mm_5", 5, 66, (512, 256), launches=(0, 3, 1)),
        kernel("triton_tem_fused_mm_54", 54, 660, (1512, 256)),
    ),
)


@pytest.mark.parametrize(
    "query",
    ["#5", "mm 512×256", "mm 512x256", "triton_tem_fused_mm_5.py:66", ":66", "fused_mm_5 :66"],
)
def test_what_the_screen_shows_of_a_kernel_chooses_it_alone(query: str) -> None:
    assert {k.number for k, _ in select(RECORDING, query)} == {5}


def test_a_part_of_a_name_chooses_all_that_have_it_and_a_property_fewer() -> None:
    assert {k.number for k, _ in select(RECORDING, "TEM_fused")} == {5, 54}
    assert [v.launches for _, v in select(RECORDING, "tem launches>2")] == [3]


@pytest.mark.parametrize("query", ["#6", "512x25", ":6", "softmax", "no:such", "mm launches>9", ""])
def test_what_fits_nothing_chooses_nothing(query: str) -> None:
    assert select(RECORDING, query) == ()


def test_a_word_that_no_name_has_is_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {5: "transformer.h.1.attn.c_proj", 54: "transformer.h.10.attn.fused_mm"}

    def origins(_: GraphReader, kernel: Kernel) -> tuple[NodeOrigin, ...]:
        return (NodeOrigin("/m/gpt.py", 1, modules[kernel.number or 0]),)

    monkeypatch.setattr(GraphReader, "origins", origins)
    words = ["transformer.h.1.attn.c_proj", "h.1.attn", "h.1", "c_proj", "module:c_proj", "h.10",
             "attn", "proj", "transformer.h.1.attn.c", "fused_mm"]  # fmt: skip
    found = {word: {k.number for k, _ in select(RECORDING, word)} for word in words}
    assert found == {
        **{word: {5} for word in words[:5]},
        "h.10": {54},
        "attn": {5, 54},
        "proj": set(),
        "transformer.h.1.attn.c": set(),
        "fused_mm": {5, 54},  # names have it
    }
    named = replace(RECORDING.kernels[1], name="c_proj")
    both = replace(RECORDING, kernels=(RECORDING.kernels[0], named))
    assert {k.number for k, _ in select(both, "c_proj")} == {54}


def test_of_several_variants_the_launched_one_is_taken_and_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, variant = select_launched(RECORDING, "#5")
    assert variant.launches == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{variant.id} (3 launches)" in said
    with pytest.raises(UsageError, match="fits 4 variants"):
        select_launched(RECORDING, "mm")


def test_numbers_in_words_are_whole() -> None:
    text = folded("#54 Model.py:660 1512×256")
    assert has_word(text, "#54") and has_word(text, "model.py:660") and has_word(text, "1512x256")
    assert not any(has_word(text, word) for word in ("#5", ":66", "512x256"))
