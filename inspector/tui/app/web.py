"""The interface in a browser: textual-serve with a page of our own.

The interface reads and saves files with this user's rights, and other users of the machine reach
its loopback address: each request needs the printed token. The page sends it once and keeps it in
a cookie. Browsers send the cookies of a host to each of its ports, and another user may listen on
one: the cookie belongs to an unguessable path that contains all pages.

Its page loads a font from elsewhere; ours loads nothing but what this server has. A page of another
site that the browser shows may try to connect to a server on this machine: requests that name
another host, or come from another origin, are refused.
"""

import asyncio
import ipaddress
import secrets
import shlex
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from textual_serve.server import Server

from inspector.system.printing import narrate

STRANGER = (
    "This page needs the address that ptxview printed when it was started, with the token in it."
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed(host: str, origin: str | None, bound: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if loopback(bound) and not loopback(name):
        return False
    return origin is None or origin in (f"http://{host}", f"https://{host}")


class WebServer(Server):
    """Serves one command: a process for every page that is opened."""

    def __init__(self, argv: list[str], host: str, port: int, title: str) -> None:
        super().__init__(
            shlex.join(argv), host, port, title, templates_path=Path(__file__).parent / "web_page"
        )
        self.token = secrets.token_urlsafe(24)
        self.place = f"/{secrets.token_urlsafe(24)}"
        # A unique name: a cookie of another port would overwrite it.
        self.cookie = f"ptxview-{secrets.token_hex(8)}"

    def knows(self, token: str | None) -> bool:
        return token is not None and secrets.compare_digest(token.encode(), self.token.encode())

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard()])
        app.add_subapp(self.place, await super()._make_app())
        return app

    def _guard(self) -> Any:
        bound = self.host

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not allowed(request.host, request.headers.get("Origin"), bound):
                raise web.HTTPForbidden(text="This page is for another address.")
            inside = request.path.startswith(f"{self.place}/")
            if self.knows(request.query.get("token")):
                # From now on by the cookie: the address must not keep the token.
                query = request.rel_url.without_query_params("token").query_string
                location = "./" if inside else f".{self.place}/"
                answer: web.StreamResponse = web.HTTPFound(
                    f"{location}?{query}" if query else location
                )
                answer.set_cookie(
                    self.cookie, self.token, httponly=True, samesite="Strict", path=f"{self.place}/"
                )
            elif inside and self.knows(request.cookies.get(self.cookie)):
                answer = await handler(request)
            else:
                raise web.HTTPForbidden(text=STRANGER)
            if not answer.prepared:
                answer.headers["Content-Security-Policy"] = POLICY
                answer.headers["X-Frame-Options"] = "DENY"
                answer.headers["Referrer-Policy"] = "no-referrer"
            return answer

        return guard

    async def on_startup(self, app: web.Application) -> None:
        """Nothing is said yet: nobody is listening."""

    def serve(self, debug: bool = False) -> None:
        """Serve until Ctrl-C. Raises ``OSError`` where the address cannot be had."""
        loop = asyncio.new_event_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.request_exit)
        web.run_app(
            self._make_app(),
            host=self.host,
            port=self.port,
            handle_signals=False,
            loop=loop,
            print=lambda *_: self.announce(),
        )

    def announce(self) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        address = f"http://{host}:{self.port}/?token={self.token}"
        narrate(f"ptxview: {address}   (Ctrl-C ends it)")
        if not loopback(self.host):
            narrate(
                "ptxview: anyone with this address reads the recording and can save files as you "
                "do; the connection is not encrypted"
            )


# The terminal's script sets styles and draws with WebGL; everything comes from this server.
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline' blob:; "
    "worker-src 'self' blob:; img-src 'self' data: blob:; connect-src 'self' ws: wss:"
)
