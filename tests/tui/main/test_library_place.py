"""Kernels of libraries, whose code has no source lines: what called them is named instead."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from inspector.base.model import Call
from inspector.tui.app.app import PtxviewApp
from tests.helpers.nightly import nightly
from tests.helpers.sample import reader, recording, text_of
from tests.helpers.shared_app import started


@pytest.mark.parametrize(
    ("operators", "place"),
    [
        nightly([("matmul", "mm")], "cuBLAS has no source lines · called in matmul → mm"),
        (
            [("matmul", "mm"), ("linear", "addmm"), ("matmul", "mm")],
            "called in matmul → mm and linear → addmm",
        ),
        ([()], "cuBLAS has no source lines"),
    ],
)
async def test_a_librarys_kernel_says_what_called_it(
    operators: list[tuple[str, ...]], place: str
) -> None:
    of = recording()
    library = of.kernels[2]
    calls = tuple(Call("cuda", library.name, operators=names) for names in operators)
    variants = tuple(replace(v, maker="cuBLAS", calls=calls) for v in library.variants)
    of = replace(of, kernels=(*of.kernels[:2], replace(library, variants=variants)))
    keys = ("slash", *"gelu", "enter", "tab", "g")
    async with started(*keys, app=PtxviewApp(reader(of))) as (ui, _):
        assert place in text_of(ui)
        assert "no source location" not in text_of(ui)
