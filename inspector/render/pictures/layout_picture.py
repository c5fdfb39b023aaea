"""The layout of a TTGIR tensor: cells of elements that one thread holds, with its warp and lane."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import prod

from inspector.analysis.linear_layouts import (
    LinearLayout,
    TensorLayout,
    aliases,
    encoding_of,
    layout_of_encoding,
    tensor_of,
)
from inspector.base.units import plural, some
from inspector.parsers.line import Line, Listing
from inspector.render.pictures.picture import GridCell, GridPicture

TITLE = "Which thread holds which element?"
MAX_ROWS, MAX_COLUMNS = 16, 16
"""Cells that are drawn: further ones repeat them."""
MAX_ELEMENTS_BITS = 18
MAX_LAYOUTS = 4
"""Layouts that are drawn, those of the largest tensors first."""
COORDINATE_BITS = 20


def layout_pictures(listing: Listing, lines: Iterable[Line]) -> list[GridPicture]:
    """The layouts that the tensors on some lines of TTGIR have, each with its lines."""
    names = aliases(listing.lines)
    lines_by_tensor: dict[TensorLayout, list[int]] = defaultdict(list)
    for line in lines:
        tensor = tensor_of(line)
        if tensor is not None:
            lines_by_tensor[tensor].append(line.n)
    largest_first = sorted(lines_by_tensor, key=lambda tensor: -prod(tensor.shape))
    pictures = (_picture_of(tensor, names, lines_by_tensor[tensor]) for tensor in largest_first)
    drawn = (picture for picture in pictures if picture is not None)
    return list(islice(drawn, MAX_LAYOUTS))


def _picture_of(
    tensor: TensorLayout, names: Mapping[str, str], lines: Sequence[int]
) -> GridPicture | None:
    encoding = encoding_of(tensor.encoding, names)
    layout = None if encoding is None else layout_of_encoding(encoding, tensor.shape)
    bits = 0 if layout is None else len(layout.registers + layout.lanes + layout.warps)
    if layout is None or bits > MAX_ELEMENTS_BITS or len(tensor.shape) > 2:
        return None
    return _layout_picture(tensor, layout, lines)


def _layout_picture(
    tensor: TensorLayout, layout: LinearLayout, lines: Sequence[int]
) -> GridPicture:
    """Cells of the first elements; a tensor of one dimension goes on in the next row."""
    holders = _holders(layout)
    steps = [_elements_together(layout, axis, size) for axis, size in enumerate(tensor.shape)]
    counts = [size // step for size, step in zip(tensor.shape, steps, strict=True)]
    if len(counts) == 1:
        columns = min(counts[0], MAX_COLUMNS)
        rows = -(-counts[0] // columns)
        row_starts = [row * columns * steps[0] for row in range(rows)]
    else:
        rows, columns = counts
        row_starts = [row * steps[0] for row in range(rows)]
    cells = []
    for row, row_start in enumerate(row_starts[:MAX_ROWS]):
        for column in range(min(columns, MAX_COLUMNS)):
            offset = column * steps[-1]
            place = (row_start + offset,) if len(counts) == 1 else (row_start, offset)
            holder = holders.get(_packed(place))
            if holder is None:
                continue
            warp, lane = holder
            about = f"element {list(place)} and those beside it: warp {warp}, lane {lane}"
            cells.append(GridCell(row, column, f"{warp}:{lane}", warp, about))
    shape = "×".join(map(str, tensor.shape))
    step = "×".join(map(str, steps))
    notes = [f"cell: warp:lane, of {step} elements", f"TTGIR {some([str(n) for n in lines])}"]
    if rows > MAX_ROWS or columns > MAX_COLUMNS:
        notes[0] += f"; the first of {rows} × {columns} cells"
    return GridPicture(
        TITLE,
        f"{shape} {tensor.encoding}: {_answer(layout, steps)}",
        "grid",
        "from",
        "element",
        [str(start) for start in row_starts[:MAX_ROWS]],
        [str(column * steps[-1]) for column in range(min(columns, MAX_COLUMNS))],
        cells,
        notes,
    )


def _answer(layout: LinearLayout, steps: Sequence[int]) -> str:
    together = prod(steps)
    answer = f"a thread holds {plural(layout.elements_a_thread, 'element')}"
    if layout.elements_a_thread > 1:
        answer += f", {together} of them side by side" if together > 1 else ", none side by side"
    if layout.copies > 1:
        answer += f"; {layout.copies} threads hold each"
    return f"{answer}."


def _elements_together(layout: LinearLayout, axis: int, size: int) -> int:
    """Neighbours along an axis that one thread holds: up to the nearest of another thread."""
    places = [basis[axis] for basis in layout.lanes + layout.warps if basis[axis]]
    # Elements of several rows beside each other are distinguished by the lowest bit of any place.
    return min((place & -place for place in places), default=size)


def _packed(place: Sequence[int]) -> int:
    packed = 0
    for coordinate in place:
        packed = packed << COORDINATE_BITS | coordinate
    return packed


def _holders(layout: LinearLayout) -> dict[int, tuple[int, int]]:
    """The first warp and lane that hold each element, by its packed coordinates."""
    registers = _places(layout.registers)
    lanes = _places(layout.lanes)
    holders: dict[int, tuple[int, int]] = {}
    for warp, warp_place in enumerate(_places(layout.warps)):
        for lane, lane_place in enumerate(lanes):
            thread_place = warp_place ^ lane_place
            for register_place in registers:
                holders.setdefault(thread_place ^ register_place, (warp, lane))
    return holders


def _places(bases: Sequence[Sequence[int]]) -> list[int]:
    """The packed place of every index, in order."""
    places = [0]
    for basis in bases:
        packed = _packed(basis)
        places += [place ^ packed for place in places]
    return places
