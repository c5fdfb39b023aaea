"""A kernel's point under the roofs of its device: bytes, operations and time of one launch."""

import math
from collections.abc import Mapping

from inspector.analysis.card import Card
from inspector.measure.launch_time import BOUND, LaunchTime
from inspector.render.costs import MEMORY_BOUND_PERCENT
from inspector.render.pictures.picture import Axis, PlotPicture
from inspector.render.races import UNITS, Figure, compute_peaks, points_under_roofs, roof_above

TITLE = "Is it bound by memory or by arithmetic?"
MEMORY = "memory by data sheet"
TENSOR_SUFFIX = "tensor cores by data sheet"


def roofline_picture(
    card: Card, time: LaunchTime | None, peaks: Mapping[str, float]
) -> PlotPicture | None:
    """The point of one launch; None where its time, bytes, operations or the peaks are unknown.

    Args:
        peaks: operations a second by unit, and ``memory_bandwidth``, of the device's data sheet.
    """
    moved = card.tensor_bytes
    operations = card.operations
    if time is None or time.source == BOUND or not time.us or not peaks:
        return None
    if moved is None or operations is None or not moved.value or not operations.value:
        return None
    point = (operations.value / moved.value, operations.value / time.us / 1e6)
    bands = {MEMORY: peaks["memory_bandwidth"] / 1e9} if "memory_bandwidth" in peaks else {}
    levels = _levels(card, peaks)
    mark = time.mark or "≈ "
    figure = points_under_roofs("", [(f"{mark}this kernel", point)], bands, levels)
    if figure is None:
        return None
    notes = [
        f"bytes and operations are estimates ({moved.how}; {operations.how})",
        f"time: {time.text}, {time.meaning}",
    ]
    return PlotPicture(
        TITLE,
        _answer(point, bands, levels),
        "plot",
        _axis(figure, 0, "operations for each byte", "FLOP/byte"),
        _axis(figure, 1, "operations a second", "TFLOP/s"),
        figure.lines,
        notes,
    )


def _levels(card: Card, peaks: Mapping[str, float]) -> Mapping[str, float]:
    """The peak of the units that the kernel computes with, by the types that it is given."""
    arguments = () if card.launch is None else card.launch.arguments
    dtypes = [(argument.dtype or "").removeprefix("torch.") for argument in arguments]
    levels = compute_peaks(peaks, [dtype for dtype in dtypes if dtype in UNITS])
    has_products = any(content.products for content in card.stages)
    return {
        name: level
        for name, level in levels.items()
        if name.endswith(TENSOR_SUFFIX) == has_products
    }


def _answer(
    point: tuple[float, float], bands: Mapping[str, float], levels: Mapping[str, float]
) -> str:
    """Which roof is above the point, and how near the point is."""
    intensity, rate = point
    roof, limit = roof_above(intensity, bands, levels)
    if not roof or math.isinf(limit):
        return "Between the roofs of two units: its instructions decide which one bounds it."
    percent = 100 * rate / limit
    kind = "memory" if roof == MEMORY else "arithmetic"
    if percent < MEMORY_BOUND_PERCENT:
        reached = f"it reaches ≈ {percent:.2g} % of the roof above it, that of {kind}"
        return f"By neither: {reached}. Latency, idle SMs or the launch bound it."
    return f"By {kind}: it reaches ≈ {percent:.0f} % of that roof."


def _axis(figure: Figure, place: int, label: str, unit: str) -> Axis:
    """An axis of whole decades around the values of a figure."""
    values = [point[place] for line in figure.lines for point in line.points]
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return Axis(label, unit, 10.0**low, 10.0 ** max(high, low + 1), log=True)
