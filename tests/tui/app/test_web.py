"""The interface in a browser: a real one, without a screen, driven over its own protocol."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from inspector.tui.app.web import allowed
from tests.helpers.ptxview import SAMPLE, write_events

PTX = ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
PTX_DIGEST = hashlib.sha256(PTX.encode()).hexdigest()
ROOT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "inspector", "open", *words]


class Address(str):
    """Host and port; and the token without which nobody is answered."""

    token = ""

    @property
    def page(self) -> str:
        return f"http://{self}/?token={self.token}"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    port = free_port()
    home = tmp_path_factory.mktemp("home")
    own = {"XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config")}
    server = subprocess.Popen(
        command(str(SAMPLE), "--web", "--port", str(port)),
        cwd=ROOT,
        env={**os.environ, **own, "EDITOR": "true"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    said = server.stderr.readline()
    found = re.search(rf"http://127.0.0.1:{port}/\?token=([\w-]{{32}}) ", said)
    assert found, said
    made = Address(f"127.0.0.1:{port}")
    made.token = found[1]
    yield made
    server.send_signal(signal.SIGINT)
    assert server.wait(120) == 0


async def entered(session: aiohttp.ClientSession, page: str) -> str:
    """The path of all pages, once the token was sent."""
    async with session.get(page) as answer:
        assert answer.status == 200
        return str(answer.url).partition("?")[0]


async def test_only_who_has_the_token_is_answered(address: Address) -> None:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        for url in (
            f"http://{address}/",
            f"http://{address}/static/js/textual.js",
            f"http://{address}/?token=",
            address.page[:-1],
            f"http://{address}/?token=%C3%A4",
        ):
            async with session.get(url) as answer:
                assert answer.status == 403, url
                assert "with the token in it" in await answer.text()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"http://{address}/ws")
        assert refused.value.status == 403
        async with session.get(f"{address.page}&fontsize=20") as answer:
            assert answer.status == 200
            place = str(answer.url).removesuffix("?fontsize=20")
            assert re.fullmatch(rf"http://{address}/[\w-]{{32}}/", place)
            assert address.token not in place
            assert 'data-font-size="20"' in await answer.text()
        (cookie,) = session.cookie_jar
        assert cookie["httponly"] and cookie["samesite"] == "Strict"
        static = f"{place}static/js/textual.js"
        async with session.get(static) as answer:
            assert answer.status == 200
    # Neither the place without the cookie nor a cookie that is another.
    for cookies in ({}, {cookie.key: "x" * 32}):
        async with aiohttp.ClientSession(cookies=cookies) as session:
            for url in (place, static):
                async with session.get(url) as answer:
                    assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(f"{place}ws")
            assert refused.value.status == 403


async def test_no_other_port_of_the_machine_is_given_the_cookie(address: Address) -> None:
    given: list[str | None] = []

    async def take(request: web.Request) -> web.Response:
        given.append(request.headers.get("Cookie"))
        answer = web.Response(text="mine")
        # It would be the page's own, were it of the same name and place.
        for name in ("ptxview", f"ptxview-{address.split(':')[1]}"):
            answer.set_cookie(name, "x", path="/")
        return answer

    port = free_port()
    other = web.Application()
    other.router.add_get("/{any:.*}", take)
    runner = web.AppRunner(other)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        place = await entered(session, address.page)
        for path in ("", "ws", "static/js/textual.js", "x/../"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                assert answer.status == 200
        async with session.get(place) as answer:
            assert answer.status == 200, "what the other has set does not shut one out"
        # At our own port, outside of the path.
        async with session.get(f"http://{address}/") as answer:
            assert answer.status == 403
    await runner.cleanup()
    assert len(given) == 4
    assert all(address.token not in (cookies or "") for cookies in given)


async def test_pages_of_others_are_refused(address: Address) -> None:
    port = address.split(":")[1]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        place = await entered(session, address.page)
        (cookie,) = session.cookie_jar
    async with aiohttp.ClientSession(cookies={cookie.key: address.token}) as session:
        for headers, status in (
            ({}, 200),
            ({"Host": f"localhost:{port}"}, 200),
            ({"Host": "evil.example"}, 403),  # a foreign name for this machine
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": f"http://{address}"}, 200),
        ):
            async with session.get(place, headers=headers) as answer:
                assert answer.status == status, headers
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{place}ws", origin="http://evil.example")
        assert refused.value.status == 403


async def test_a_page_runs_nothing_from_the_folder_that_it_was_started_in(tmp_path: Path) -> None:
    """Two recordings are served, which the page shows as one."""
    mark = tmp_path / "mark"
    for node, kernel in (("node0", "on_the_first"), ("node1", "on_the_second")):
        write_events(
            tmp_path / node,
            {"event": "recording", "schema": 1, "command": ["python", "x.py"], "mode": "gpu"},
            {
                "event": "triton",
                "name": kernel,
                "hash": node.encode().hex() * 6 + "beef",
                "metadata": {"num_warps": 4},
                "files": {"ptx": PTX_DIGEST},
            },
        )
        (tmp_path / node / "blobs" / PTX_DIGEST).write_text(PTX)
    for name in ("json", "rich", "sitecustomize", "platformdirs", "asyncio", "textual"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'a')\n")
    port = free_port()
    code = "from inspector.commands.cli import main; raise SystemExit(main())"
    server = subprocess.Popen(
        [sys.executable, "-P", "-c", code, "open", "node0", "node1", "--web", "--port", str(port)],
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    found = re.search(r"http://\S+", server.stderr.readline())
    assert found is not None
    drawn = b""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        place = await entered(session, found[0])
        async with session.ws_connect(f"{place}ws?width=100&height=40") as socket:
            while not (b"on_the_first" in drawn and b"on_the_second" in drawn):
                message = await asyncio.wait_for(socket.receive(), 60)
                assert message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY), drawn
                drawn += message.data if isinstance(message.data, bytes) else b""
                await socket.send_json(["stdin", "\t"])  # from the overview to the kernels
    server.send_signal(signal.SIGINT)
    assert server.wait(120) == 0
    assert not mark.exists()


@pytest.mark.parametrize(
    ("host", "origin", "bound", "may"),
    [
        ("127.0.0.1:8000", None, "127.0.0.1", True),
        ("[::1]:8000", None, "::1", True),
        ("node7:8000", None, "127.0.0.1", False),
        ("node7:8000", "http://node7:8000", "0.0.0.0", True),
        ("node7:8000", "http://evil.example", "10.0.0.1", False),
        ("localhost.evil.example", None, "127.8.8.8", False),
        ("", None, "127.0.0.1", False),
    ],
)
def test_who_may_ask(host: str, origin: str | None, bound: str, may: bool) -> None:
    assert allowed(host, origin, bound) is may
