"""Virtual registers as PTX declares them."""

from __future__ import annotations

from inspector.analyse.flow.graph import declared
from inspector.base.model import Stage
from inspector.listing import parse

PTX = """.visible .entry k()
{
\t.reg .pred \t%p<9>;
\t.reg .b32 \t%r<33>, %a, %b;
\t.reg .v2 .f32 %v;
\tadd.s32 %r1, %r2, %r3;
\t{ .reg .b32 tmp;
\tmov.b32 tmp, %r1; }
\tret;
}
.func f()
{
\t.reg .b64 %rd<4>;
\tret;
}
"""


def test_registers_are_counted_by_class_and_function() -> None:
    listing = parse(Stage.PTX, PTX)
    kernel, function = listing.functions
    assert declared(listing, kernel) == {"pred": 9, "b32": 36, "v2.f32": 1}
    assert declared(listing, function) == {"b64": 4}


def test_other_languages_declare_none() -> None:
    listing = parse(Stage.SASS, "        /*0000*/                   EXIT ;\n")
    assert all(declared(listing, f) == {} for f in listing.functions)
