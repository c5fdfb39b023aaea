"""The timeline of a simulated block on the page."""

from pathlib import Path

from tests.helpers.browser import browser, needs_browser
from tests.helpers.ptxview import DATA, call

ROLES = DATA.parent / "estimate" / "roles.ptxview"
LABELS = "[...document.querySelectorAll('svg.picture .name')].map((e) => e.textContent)"


@needs_browser
async def test_a_page_draws_what_a_block_with_warp_roles_does(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert call("export", ROLES, "b3e69730", "-o", page).status == 0
    async with browser(tmp_path / "browser") as tab:
        await tab.window(1400, 900)
        await tab.ask("Page.navigate", url=f"{page.as_uri()}#b3e69730/facts")
        await tab.come("document.querySelectorAll('svg.picture .of-wait').length > 2")
        labels = await tab.value(LABELS)
        assert {"warps 0 to 3: multiply", "warp 6: copy", "tensor cores"} <= set(labels)
        # A ring of eight mbarriers is drawn with the numbers of its phases.
        assert sum(label.startswith("mbarrier ") for label in labels) == 8
        assert await tab.value("document.querySelectorAll('svg.picture .phase0').length") > 4
        text = await tab.value("document.querySelector('#facts, main').innerText")
        assert "What holds a block up?" in text and "The path without slack" in text
        assert tab.complaints == []
