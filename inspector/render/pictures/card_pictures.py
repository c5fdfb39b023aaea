"""The pictures of a variant's card: what limits its warps, and what bounds its time."""

from collections.abc import Mapping

from inspector.analysis.card import Card
from inspector.measure.launch_time import LaunchTime
from inspector.render.pictures.occupancy_picture import occupancy_picture
from inspector.render.pictures.picture import Picture
from inspector.render.pictures.roofline_picture import roofline_picture


def card_pictures(card: Card, time: LaunchTime | None, peaks: Mapping[str, float]) -> list[Picture]:
    """Those that can be drawn from known figures.

    Args:
        time: that of one launch.
        peaks: figures of the data sheet of the device that ``time`` is of.
    """
    pictures = (occupancy_picture(card), roofline_picture(card, time, peaks))
    return [picture for picture in pictures if picture is not None]
