"""Models of pictures: a question, its answer, and marks with values and units.

A picture is drawn by ``terminal_picture`` as lines of text and by the HTML page as SVG, from the
same model, which is also what ``--json`` prints.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

Role = Literal["chosen", "best", "tied", "limit", "other"]
"""What a row of a picture is: the choice, the best, tied with that, what limits, or another."""


class PlotLine(Struct, frozen=True):
    """A line through points in the axes' units, or one point.

    ``limit`` marks a bound, such as a roof; ``remark`` follows the name in the legend.
    """

    name: str
    points: Sequence[tuple[float, float]]
    limit: bool = False
    remark: str = ""


class Axis(Struct, frozen=True):
    """An axis of values; ``log`` is one of decades."""

    label: str
    unit: str
    low: float
    high: float
    log: bool = False


class PictureRow(Struct, frozen=True):
    """A row along the axis; ``low`` and ``high`` are the band of noise around the value."""

    label: str
    mark: str
    role: Role
    value: float
    low: float | None
    high: float | None
    text: Annotated[str, Meta(description="the value in words")]
    group: Annotated[int, Meta(description="units that are drawn together: warps of a block")] = 1


class RowPicture(Struct, frozen=True):
    """Rows along one axis: dots with bands, or slots that are filled from the left.

    Values beyond the axis are drawn at its end. ``band`` are the values that do not differ from
    the best one.
    """

    title: str
    answer: str
    form: Literal["dots", "slots"]
    axis: Axis
    rows: Sequence[PictureRow]
    band: tuple[float, float] | None = None
    notes: Sequence[str] = ()


class PlotPicture(Struct, frozen=True):
    """Lines and points over two axes, as a roofline is."""

    title: str
    answer: str
    form: Literal["plot"]
    x: Axis
    y: Axis
    lines: Sequence[PlotLine]
    notes: Sequence[str] = ()


class GridCell(Struct, frozen=True):
    """A cell of a grid; cells of one ``group`` belong together, and get one shade."""

    row: int
    column: int
    text: str
    group: int
    about: str


class GridPicture(Struct, frozen=True):
    """Cells in rows and columns, each of which has a label."""

    title: str
    answer: str
    form: Literal["grid"]
    row_label: str
    column_label: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[GridCell]
    notes: Sequence[str] = ()


class StripRow(Struct, frozen=True):
    """What something does over time: each kind with its begin and end in the axis' unit.

    ``shares`` of its whole time, the largest first.
    """

    label: str
    runs: Sequence[tuple[str, float, float]]
    shares: Sequence[tuple[str, float]] = ()


class StripPicture(Struct, frozen=True):
    """Rows of what is done along one axis of time; ``kinds`` are the legend, in its order.

    ``--json`` prints the timeline that it is made of instead.
    """

    title: str
    answer: str
    form: Literal["strips"]
    axis: Axis
    rows: Sequence[StripRow]
    kinds: Sequence[tuple[str, str]]
    notes: Sequence[str] = ()


Picture = RowPicture | PlotPicture | GridPicture
