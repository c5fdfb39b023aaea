"""A card names the modules of a generated kernel and the lines that call a library's."""

from __future__ import annotations

from inspector.analysis.graph_view import NodeOrigin
from inspector.render.card import origin_rows

LIBRARY = "/venv/site-packages/transformers/pytorch_utils.py"


def test_a_template_is_of_the_module_of_its_product() -> None:
    origins = [
        NodeOrigin(LIBRARY, 66, "h.0.ln_1"),
        NodeOrigin(LIBRARY, 119, "h.0.attn.c_attn", ("/home/ada/train.py", 12), product=True),
    ]
    assert [*origin_rows(origins)] == [
        ("module", "h.0.attn.c_attn"),
        ("called from", "/home/ada/train.py:12"),
    ]


def test_many_modules_are_counted() -> None:
    origins = [NodeOrigin(LIBRARY, 119, f"h.{n}.mlp") for n in range(12)]
    assert [*origin_rows(origins)] == [("module", "h.0.mlp, h.1.mlp, h.2.mlp and 9 more")]


def test_without_recorded_modules_no_row_is_made() -> None:
    assert not [*origin_rows([NodeOrigin(LIBRARY, 119)])]
    assert [*origin_rows([NodeOrigin(LIBRARY, 119, "")])] == [("module", "the model")]
