"""The tree in its orders, and the operators under a generated kernel."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from inspector.base.model import Fusion, GpuTime, Recording, Resources, Variant
from inspector.tui.tree.rows import Figures, Order, TreeKind, ordered, orders, recording_tree, rows
from tests.helpers.sample import recording, text_of
from tests.helpers.shared_app import started


def texts(order: Order, figures: Figures, of: Recording | None = None) -> list[str]:
    of = of or recording()
    times = {v.id: v.gpu_time.median_us for _, v in of.variants() if v.gpu_time is not None}
    tree = ordered(recording_tree(of), order, figures, lambda _, v: times.get(v.id) if v else None)
    return [row.text for row in rows(tree, "", {})]


def timed(**times: float) -> Recording:
    """The small recording with GPU times of variants, by the beginning of their ids."""
    made = recording()

    def with_time(one: Variant) -> Variant:
        found = next((t for name, t in times.items() if one.id.startswith(name[1:])), None)
        if found is None:
            return one
        return replace(one, gpu_time=GpuTime(1, found, found, (found, found, found)))

    kernels = (replace(k, variants=tuple(map(with_time, k.variants))) for k in made.kernels)
    return replace(made, kernels=tuple(kernels))


def test_the_costliest_comes_first_and_what_is_not_known_last() -> None:
    of = recording()
    square = of.kernels[0]
    third = replace(square.variants[0], id="aaaaaaaa", config={"BLOCK": 2048})
    kernel = replace(square, variants=(*square.variants, third))
    figures: Figures = {
        ("k1", "3f2a91c0"): Resources(registers=22),
        ("k1", "84d20b7e"): Resources(registers=83),
        ("k1", "aaaaaaaa"): None,
    }
    found = texts(Order.REGISTERS, figures, replace(of, kernels=(kernel,), graphs=()))
    assert [text[:10] for text in found[2:]] == ["BLOCK=4096", "BLOCK=1024", "BLOCK=2048"]


def test_time_is_an_order_only_where_a_time_is_known() -> None:
    assert Order.TIME not in orders(recording())
    of = timed(v84d2=9.5, v3f2a=8.25)
    assert Order.TIME in orders(of)
    assert [t[:10] for t in texts(Order.TIME, {}, of)[2:4]] == ["BLOCK=4096", "BLOCK=1024"]


def test_operators_stand_under_their_kernel_and_are_found_by_the_filter() -> None:
    of = recording()
    ops = Fusion(("aten.mul", "aten.tanh", "prims.convert_element_type"))
    fused = replace(of.kernels[1], fusion=ops, number=0)
    of = replace(of, kernels=(of.kernels[0], fused, of.kernels[2]))
    tree = recording_tree(of)
    assert rows(tree, "#0", {}) == rows(tree, "aten.tanh", {})
    assert rows(tree, "#1", {}) == ()
    found = rows(tree, "aten.tanh", {})
    assert [(row.kind, row.text) for row in found[2:]] == [
        (TreeKind.KERNEL, "#0 mul·tanh · pointwise"),
        (TreeKind.OPERATORS, "mul, tanh, prims.convert_element_type"),
    ]
    assert found[-1].subject == found[-2].subject
    assert ordered(tree, Order.NAME, {})[1].beneath[0].beneath[0].beneath[0].row.kind is (
        TreeKind.OPERATORS
    )


def test_a_kernels_row_is_for_the_launched_variant_else_the_tuners_choice() -> None:
    of = recording()
    first, second = of.kernels[0].variants[:2]

    def chosen(*variants: Variant) -> str:
        kernel = replace(of.kernels[0], variants=variants)
        return rows(recording_tree(replace(of, kernels=(kernel,))), "", {})[1].subject.key[1]

    best = replace(second, launches=0, autotune={"winner": True})
    assert chosen(replace(first, launches=0, autotune=None), best) == second.id
    assert chosen(replace(first, launches=3, autotune=None), best) == first.id


@pytest.mark.parametrize(("width", "legend"), [(160, "★ chosen  ? this row"), (220, "? this row")])
async def test_the_legend_of_the_tree_is_whole_at_any_width(width: int, legend: str) -> None:
    async with started(size=(width, 40)) as (ui, _):
        assert legend in text_of(ui) and "? t…" not in text_of(ui)
