"""Occupancy as the slots that an SM has for warps, filled to each resource's limit."""

from inspector.analysis.card import Card
from inspector.base.units import plural
from inspector.render.pictures.picture import Axis, PictureRow, Role, RowPicture

TITLE = "What limits the warps on an SM?"
LIMIT_MARK = "◀"


def occupancy_picture(card: Card) -> RowPicture | None:
    """A row for each resource, and one for the launch; None where occupancy is not known."""
    occupancy = card.occupancy
    if occupancy is None or not occupancy.blocks or card.threads is None:
        return None
    device = occupancy.device
    slots = device.max_warps_per_sm
    warps_a_block = occupancy.warps // occupancy.blocks
    resident = min(occupancy.limits.values())
    rows = []
    for name, blocks in occupancy.limits.items():
        warps = min(blocks * warps_a_block, slots)
        limits = blocks == resident and warps < slots
        text = f"{warps} warps: {plural(blocks, 'block')} of {warps_a_block}"
        rows.append(_row(name, warps, text, limits, warps_a_block))
    answer = f"{occupancy.warps} of {slots} warps fit: {_limiters(rows)}."
    sms = device.sms
    if card.blocks is not None and sms:
        blocks = min(-(-card.blocks // sms), resident)
        warps = blocks * warps_a_block
        is_short = warps < occupancy.warps
        text = f"{warps} warps: {plural(card.blocks, 'block')} over {sms} SMs"
        rows.append(_row("this launch", warps, text, is_short, warps_a_block))
        if is_short:
            answer += f" This launch gives an SM at most {warps}."
    axis = Axis("warps of an SM", "warps", 0, slots)
    note = f"in theory, of {device.name} ({device.arch})"
    return RowPicture(TITLE, answer, "slots", axis, rows, None, (note,))


def _row(name: str, warps: int, text: str, limits: bool, group: int) -> PictureRow:
    role: Role = "limit" if limits else "other"
    mark = LIMIT_MARK if limits else ""
    return PictureRow(name, mark, role, warps, None, None, text, group)


def _limiters(rows: list[PictureRow]) -> str:
    names = [row.label for row in rows if row.role == "limit"]
    return f"limited by {' and '.join(names)}" if names else "nothing limits them"
