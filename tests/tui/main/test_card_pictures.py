"""Pictures in the interface: below the card, and of the tensor on a line of TTGIR."""

from __future__ import annotations

from inspector.base.model import Stage
from inspector.tui.widgets.tool_screen import Overlay
from tests.helpers.sample import press, settle, text_of
from tests.helpers.shared_app import lecture_app

MATMUL = "ff3a7da2"


async def test_a_card_and_a_line_of_ttgir_have_their_pictures() -> None:
    async with lecture_app.run_test(size=(120, 60)) as ui:
        main = await settle(ui)
        rows = enumerate(main.kernels.rows)
        main.kernels.go([i for i, row in rows if row.subject.key[1] == MATMUL][-1])
        await settle(ui)
        await press(ui, "i")
        await ui.app.workers.wait_for_complete()
        await ui.pause()
        assert isinstance(ui.app.screen, Overlay)
        card = text_of(ui)
        assert "What limits the warps on an SM?" in card
        assert "◀ this launch" in card
        await press(ui, "escape")
        main = await settle(ui)
        main.panes.display = True
        listing = main.reads.stages.listing(main.panes.subject.pair[1], Stage.TTGIR)
        products = [line.n for line in listing.lines if "-> tensor<64x64xf32, #mma>" in line.text]
        main.panes.jump(Stage.TTGIR, products[0])
        await settle(ui)
        await press(ui, "e")
        await ui.app.workers.wait_for_complete()
        await ui.pause()
        assert "64×64 #mma: a thread holds 32 elements, 2 of them side by side." in text_of(ui)
