"""Two sides of a comparison, made of a few lines of PTX and TTIR."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from inspector.analysis.card import card
from inspector.analysis.hints.subject import Finding
from inspector.base.model import Call, Kernel, Origin, Resources, Stage, Variant
from inspector.diff import summary as summaries
from inspector.diff.explanation import explain
from inspector.diff.summary import Summary, VariantSide, summarise
from inspector.parsers.line import Function, Listing
from inspector.reader import tables
from tests.helpers.cards import ptx, ttir

LOAD, STORE = "\tld.global.b32 %r1, [%rd1];", "\tst.global.b32 [%rd1], %r1;"


def side(
    text: str = LOAD,
    *,
    config: Mapping[str, object] | None = None,
    body: str | None = None,
    head: tuple[Listing, Function] | None = None,
    target: str = "sm_90",
    resources: Resources | None = None,
    source: tuple[str, ...] | None = None,
    findings: tuple[Finding, ...] = (),
    grid: int | None = None,
    time_us: float | None = None,
    stalls: int | None = None,
) -> VariantSide:
    """A side whose PTX is ``text`` and whose TTIR has the body ``body``, or is ``head``."""
    listing, function = ptx(text)
    known = {"num_warps": 4} | dict(config or {})
    variant = Variant("12345678", "12345678", "f", target=target, config=known)
    ir = head if head is not None else ttir(body) if body is not None else None
    warps = known["num_warps"]
    threads = 32 * warps if isinstance(warps, int) else None
    launch = None
    if grid is not None:
        launch = Call("triton", "f", None, (grid, 1, 1), (threads or 32, 1, 1), 0)
    figures = Resources(20, 0, 0, 0, 0, 0, 0) if resources is None else resources
    made = card(
        figures,
        tables.devices().get(target),
        {Stage.PTX: (listing, function)},
        tables.isa().cost,
        launch,
        threads,
    )
    return VariantSide(
        Kernel("f", "f", "f", Origin.TRITON, (variant,)),
        variant,
        made,
        findings,
        summaries.opcodes(listing, function),
        stalls,
        source,
        summaries.tile(*ir) if ir is not None else None,
        summaries.parameters(*ir) if ir is not None else None,
        time_us,
    )


def tensor(*shape: int) -> str:
    dims = "x".join(map(str, shape))
    return f"    %t = arith.constant dense<0.0> : tensor<{dims}xf32>"


def told(
    a: VariantSide, b: VariantSide, same: Mapping[Stage, bool] | None = None
) -> tuple[str, ...]:
    alike = (same or {}).get(Stage.PTX, a.opcodes == b.opcodes)
    return explain(a, b, said(a, b, same), alike)


def said(a: VariantSide, b: VariantSide, same: Mapping[Stage, bool] | None = None) -> Summary:
    return summarise(a, b, Stage.PTX, same)


def using(**figures: int | None) -> Resources:
    return replace(Resources(20, 0, 0, 0, 0, 0, 0), **figures)
