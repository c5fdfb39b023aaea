"""A headless browser, spoken to by its own protocol, and what a page in it does."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.helpers.tools import needs, path_of

BROWSER = path_of("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1200,700", "--remote-debugging-port=0"),
    "--disable-features=IsolateSandboxedIframes",  # a frame is asked as its page is
)
needs_browser = needs("chromium")
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "End": 35,
    "Home": 36,
    "PageDown": 34,
}
"""The Windows key codes of keys that write nothing."""


class Page:
    """A page of the browser: what it sent for, what came over its WebSocket, its complaints."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        self.blocked: list[str] = []
        self.complaints: list[str] = []
        self.drawn = b""

    async def listen(self) -> None:
        """Take what the browser tells."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
                continue
            what, of = said["method"], said.get("params", {})
            if what == "Network.requestWillBeSent":
                self.requests.append(of["request"]["url"])
            elif what == "Network.loadingFailed" and "blockedReason" in of:
                self.blocked.append(of["blockedReason"])
            elif what == "Network.webSocketCreated":
                self.requests.append(of["url"])
            elif what == "Network.webSocketFrameReceived" and of["response"]["opcode"] == 2:
                self.drawn += base64.b64decode(of["response"]["payloadData"])
            elif what == "Runtime.exceptionThrown":
                self.complaints.append(str(of["exceptionDetails"]))
            elif what == "Runtime.consoleAPICalled" and of["type"] == "error":
                self.complaints.append(str(of["args"]))
            elif what == "Log.entryAdded" and of["entry"]["level"] == "error":
                self.complaints.append(of["entry"]["text"])

    async def ask(self, method: str, **given: object) -> dict[str, Any]:
        """One command of the protocol; its result."""
        number = next(self._numbers)
        self._answers[number] = future = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": given})
        answer = await asyncio.wait_for(future, 120)
        assert "error" not in answer, answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def value(self, expression: str) -> Any:
        """What JavaScript makes of an expression, promises awaited."""
        said = await self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def come(self, expression: str) -> Any:
        """Wait until an expression is true; what it is then. Fails after two minutes."""
        end = time.monotonic() + 120
        while not (value := await self.value(expression)):
            assert time.monotonic() < end, f"it did not come: {expression} {self.complaints}"
            await asyncio.sleep(0.02)
        return value

    @property
    def text(self) -> str:
        """What was drawn since it was forgotten last, without the terminal's commands."""
        return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", self.drawn.decode("utf-8", "replace"))

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait; fails after two minutes."""
        end = time.monotonic() + 120
        while not done():
            assert time.monotonic() < end, f"it did not come: {self.complaints} {self.text[-3000:]}"
            await asyncio.sleep(0.05)

    async def type(self, text: str) -> None:
        for character in text:
            await self.ask("Input.dispatchKeyEvent", type="keyDown", text=character, key=character)
            await self.ask("Input.dispatchKeyEvent", type="keyUp", key=character)

    async def press(self, *keys: str) -> None:
        for key in keys:
            about = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {}
            await self.ask("Input.dispatchKeyEvent", type="keyDown", **about, **text)
            await self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    async def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element's left part."""
        at = await self.value(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [r.x + Math.min(r.width / 2, 150), r.y + r.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1
            )

    async def picture(self, path: Path) -> bytes:
        said = await self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(data := base64.b64decode(said["data"]))
        return data

    async def window(self, width: int, height: int, scheme: str = "light") -> None:
        """The size of the page, and whether the system is dark or light."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.ask("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.ask("Emulation.setEmulatedMedia", features=features)


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    assert BROWSER is not None
    process = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        told = folder / "DevToolsActivePort"
        end = time.monotonic() + 120
        while not (told.exists() and told.read_text().count("\n") == 1):
            assert time.monotonic() < end, "the browser did not start"
            await asyncio.sleep(0.1)
        port = told.read_text().splitlines()[0]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [p for p in await answer.json() if p["type"] == "page"]
            async with session.ws_connect(
                pages[0]["webSocketDebuggerUrl"], max_msg_size=1 << 28
            ) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                for domain in ("Network", "Runtime", "Page", "Log"):
                    await page.ask(f"{domain}.enable")
                yield page
                listening.cancel()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(120)
