"""Draws the README's picture: a real screen of the recording beside this file.

python -m examples.recordings.picture
"""

import asyncio
from pathlib import Path

from inspector.commands.common import open_reader
from inspector.tui.app.app import PtxviewApp

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "docs" / "interface.svg"


async def main() -> None:
    app = PtxviewApp(open_reader(str(HERE / "lecture-h200.ptxview")))
    async with app.run_test(size=(150, 36)) as pilot:
        await pilot.pause(2)
        # The variant whose rows are aligned: its loads are 16 bytes a thread.
        for _ in range(4):
            await pilot.press("down")
        await pilot.pause(1)
        await pilot.press("tab")
        for _ in range(12):
            await pilot.press("j")
        await pilot.pause(1)
        PICTURE.write_text(app.export_screenshot(title="ptxview"))


if __name__ == "__main__":
    asyncio.run(main())
