"""Pictures of a page as JSON, which its script draws as SVG."""

from contextlib import suppress
from functools import partial

from inspector.analysis.card import Card
from inspector.analysis.tuner_times import TunerFacts
from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Stage, Variant
from inspector.estimate.launches import LaunchEstimates, data_sheet
from inspector.estimate.rows import sass_place
from inspector.measure.launch_time import LaunchTime
from inspector.reader.reader import Reader
from inspector.render import tunings
from inspector.render.jsons import to_builtins
from inspector.render.pictures.block_picture import block_pictures
from inspector.render.pictures.card_pictures import card_pictures
from inspector.render.pictures.layout_picture import layout_pictures
from inspector.render.pictures.picture import Picture, StripPicture

STRIP_CELLS = 385
"""Parts of a strip that can be told apart: a pixel each."""


def variant_pictures(
    reader: Reader,
    kernel: Kernel,
    variant: Variant,
    variant_card: Card,
    launch_time: LaunchTime | None,
) -> object:
    """The pictures of a variant's card, its block's timeline where that was simulated, and the
    layouts of its TTGIR's tensors."""
    pictures: list[Picture | StripPicture] = []
    pictures += card_pictures(variant_card, launch_time, data_sheet(reader))
    drawn = LaunchEstimates(reader).kept_timeline(kernel, variant)
    if drawn is not None:
        place = partial(sass_place, reader, variant)
        pictures += block_pictures(drawn.timeline, drawn.hertz, place, STRIP_CELLS)
    with suppress(PtxviewError):
        if Stage.TTGIR in variant.stages:
            listing = reader.stages.listing(variant, Stage.TTGIR)
            function = reader.stages.function(variant, Stage.TTGIR)
            lines = listing.lines
            if function is not None:
                lines = listing.between(function.first, function.last)
            pictures += layout_pictures(listing, lines)
    return to_builtins(pictures)


def tuning_pictures(kernel: Kernel, facts: TunerFacts) -> list[object]:
    """The rounds of a kernel's tuning that have a picture, each with its remarks."""
    rounds = []
    for number, tuning in enumerate(kernel.autotune):
        picture = tunings.round_picture(tuning, facts)
        if picture is not None:
            row = {
                "about": tunings.about(kernel, number),
                "remarks": list(tunings.remarks(kernel, tuning, facts)),
                "picture": picture,
            }
            rounds.append(to_builtins(row))
    return rounds
