"""The page's server: one machine, one person, and nobody else's pages.

Every request is checked before anything is looked up: the Host header against a short list (other
sites may point their names here), the cookie, and if it changes something the Origin, the type of
the body, its size and a token that only the page knows. Rows are asked for by number.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from atoll.app.export import export_labels
from atoll.app.session import Session, StaleError
from atoll.core.extras import import_extra

MAX_BODY = 64 * 1024
LONGEST_NUMBER = 18  # digits of the number of a row
MOST_AT_ONCE = 60  # connections; a browser opens six
MIN_PASSWORD = 12
_LOCAL = ("127.0.0.1", "localhost")
_FILES = {"app.js": "text/javascript", "map.js": "text/javascript", "style.css": "text/css"}
_PATIENCE = 5  # wrong passwords before a pause
_PAUSE = 30.0  # seconds

Handler = Callable[[Any], Awaitable[Any]]


class Door(NamedTuple):
    """Who may come in.

    hosts : values that the Host header may have
    token : in the address that the command prints; None if a password is asked for instead
    password : None if only this machine can reach the page
    cookie_name, cookie : what a browser sends once it has been let in
    page_token : known only to the page, which sends it with every request that changes something
    """

    hosts: frozenset[str]
    token: str | None
    password: str | None
    cookie_name: str
    cookie: str
    page_token: str


class RefusedError(Exception):
    """A request is refused, with this status and reason."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status, self.reason = status, reason


def make_door(host: str, port: int, password: str | None = None) -> Door:
    """Return the secrets of one run of the server, freshly drawn."""
    names = {host, *_LOCAL} if host in _LOCAL else {host}
    hosts = frozenset(f"{name}:{port}" for name in names)
    token = None if password is not None else secrets.token_urlsafe(24)
    cookie, page_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    return Door(hosts, token, password, f"atoll_{port}", cookie, page_token)


def check_address(host: str, allow_network: bool, password: str | None) -> None:
    """Raise a ValueError unless the server may listen at this address.

    Parameters
    ----------
    host : address, as given
    allow_network : whether the user has allowed others to reach it
    password : that others must give; None without one
    """
    if host in _LOCAL:
        return
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError(
            f"--host {host}: give 127.0.0.1, or an IPv4 address of this machine."
        ) from None
    if address.is_unspecified:
        raise ValueError(
            f"--host {host} would listen everywhere; name the one address that others use."
        )
    if not allow_network:
        raise ValueError(
            f"--host {host}: others on the network could read and change the labels. Say "
            "--allow-network if that is meant, or use 127.0.0.1 through a tunnel (ssh -L)."
        )
    if password is None or len(password) < MIN_PASSWORD:
        raise ValueError(
            f"--host {host} needs a password of at least {MIN_PASSWORD} characters, in the "
            "environment variable ATOLL_PASSWORD."
        )


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address; port 0 takes any that is free.

    A browser that comes before the server runs waits, and is not refused.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1" if host == "localhost" else host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise ValueError(
            f"cannot listen at {host}:{port} ({getattr(error, 'strerror', None) or error}); choose "
            "another --port."
        ) from error
    return listener


def serve(app: Any, listener: socket.socket, started: Callable[[], None] | None = None) -> None:
    """Answer requests until the process is told to end."""
    server = make_server(app)
    if started is not None:
        started()
    with suppress(KeyboardInterrupt):  # raised once more after the server has ended in good order
        server.run(sockets=[listener])


def make_server(app: Any) -> Any:
    """Return the server of an app, with its limits."""
    uvicorn = import_extra("uvicorn")
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


def make_app(session: Session, door: Door, export_path: Path) -> Any:
    """Return the page as an ASGI application.

    Parameters
    ----------
    session : Session
    door : Door
    export_path : file that the page's export writes
    """
    return _Page(session, door, export_path).app()


class _Page:
    """The routes."""

    def __init__(self, session: Session, door: Door, export_path: Path):
        self.session, self.door, self.export_path = session, door, export_path
        self.responses = import_extra("starlette.responses")
        self.in_thread = import_extra("starlette.concurrency").run_in_threadpool
        self._wrong_passwords: list[float] = []

    def app(self) -> Any:
        Route = import_extra("starlette.routing").Route
        changes = {
            "/state": self.state,
            "/answer": self.answer,
            "/undo": self.undo,
            "/redo": self.redo,
            "/class": self.add_class,
            "/export": self.export,
        }
        looks = {"/picture": self.picture, "/colours": self.colours, "/media/{row}": self.media}
        routes = [
            Route("/", self._guarded(self.index, needs_cookie=False), methods=["GET"]),
            Route("/page/{name}", self._guarded(self.static, needs_cookie=False), methods=["GET"]),
            Route("/login", self._guarded(self.login, needs_cookie=False), methods=["POST"]),
            *(Route(path, self._guarded(one), methods=["POST"]) for path, one in changes.items()),
            *(Route(path, self._guarded(one), methods=["GET"]) for path, one in looks.items()),
        ]
        app = import_extra("starlette.applications").Starlette(routes=routes)
        return _HostGuard(app, self.door.hosts)

    # --- coming in -------------------------------------------------------------------------------

    async def index(self, request: Any) -> Any:
        token = request.query_params.get("token")
        if token is not None and self.door.token is not None and _same(token, self.door.token):
            return self._welcome(self.responses.RedirectResponse("/", status_code=303))
        nonce = secrets.token_urlsafe(16)
        if self._has_cookie(request):
            text = _page_text("index.html", nonce, self.door.page_token)
        elif self.door.password is not None:
            text = _page_text("login.html", nonce, self.door.page_token)
        else:
            raise RefusedError(403, "open the address that the command has printed.")
        return self.responses.HTMLResponse(text, headers=_policy(nonce))

    async def static(self, request: Any) -> Any:
        name = request.path_params["name"]
        if name not in _FILES:
            raise RefusedError(404, "there is no such file.")
        return self.responses.Response(_page_file(name), media_type=_FILES[name])

    async def login(self, request: Any) -> Any:
        if self.door.password is None:
            raise RefusedError(404, "no password is asked for here.")
        now = time.monotonic()
        self._wrong_passwords = [t for t in self._wrong_passwords if now - t < _PAUSE]
        if len(self._wrong_passwords) >= _PATIENCE:
            raise RefusedError(429, "too many wrong passwords; wait half a minute.")
        given = (await self._body(request)).get("password")
        if not isinstance(given, str) or not _same(given, self.door.password):
            self._wrong_passwords.append(now)
            raise RefusedError(403, "this is not the password.")
        return self._welcome(self.responses.JSONResponse({}))

    def _welcome(self, response: Any) -> Any:
        response.set_cookie(
            self.door.cookie_name, self.door.cookie, httponly=True, samesite="strict", path="/"
        )
        return response

    def _has_cookie(self, request: Any) -> bool:
        return _same(request.cookies.get(self.door.cookie_name, ""), self.door.cookie)

    # --- what the page asks for ------------------------------------------------------------------

    async def state(self, request: Any) -> Any:
        return await self._state(await self._body(request))

    async def answer(self, request: Any) -> Any:
        body = await self._body(request)
        row, seen, label = _whole(body, "row"), _whole(body, "seen"), body.get("label")
        kind = str(body.get("kind"))
        is_audit = body.get("audit") is True
        await self.in_thread(
            lambda: self.session.answer(kind, row, seen, label=label, is_audit=is_audit)
        )
        return await self._state(body)

    async def undo(self, request: Any) -> Any:
        body = await self._body(request)
        row = await self.in_thread(self.session.undo, _whole(body, "number"))
        return await self._state(body, again=row)

    async def redo(self, request: Any) -> Any:
        body = await self._body(request)
        await self.in_thread(self.session.redo, _whole(body, "number"))
        return await self._state(body)

    async def add_class(self, request: Any) -> Any:
        body = await self._body(request)
        await self.in_thread(self.session.add_class, body.get("name"))
        return await self._state(body)

    async def export(self, request: Any) -> Any:
        body = await self._body(request)
        with_predictions = bool(body.get("predictions"))
        n = await self.in_thread(export_labels, self.session, self.export_path, with_predictions)
        return self.responses.JSONResponse({"file": str(self.export_path), "labels": n})

    async def picture(self, request: Any) -> Any:
        return self.responses.JSONResponse(await self.in_thread(self.session.picture))

    async def colours(self, request: Any) -> Any:
        return self.responses.JSONResponse(await self.in_thread(self.session.colours))

    async def media(self, request: Any) -> Any:
        row = request.path_params["row"]
        is_number = len(row) <= LONGEST_NUMBER and row.isascii() and row.isdecimal()
        found = await self.in_thread(self.session.rows.media, int(row)) if is_number else None
        if found is None:
            raise RefusedError(404, "there is nothing to show for this row.")
        # A browser that opens the file itself runs nothing that may be in it.
        headers = {"Content-Security-Policy": "default-src 'none'; sandbox"}
        return self.responses.FileResponse(found[0], media_type=found[1], headers=headers)

    async def _state(self, body: dict[str, Any], again: int | None = None) -> Any:
        tab, have = str(body.get("tab", ""))[:40], body.get("have", [])
        if not isinstance(have, list) or not all(isinstance(row, int) for row in have):
            raise RefusedError(400, "have must be a list of row numbers.")
        state = await self.in_thread(self.session.state, tab, have)
        if again is not None:
            state["again"] = await self.in_thread(self.session.shown_again, again, tab)
        return self.responses.JSONResponse(state)

    # --- checks ----------------------------------------------------------------------------------

    def _guarded(self, handler: Handler, needs_cookie: bool = True) -> Handler:
        """Return the handler behind the checks, which answer in one line of JSON."""

        async def checked(request: Any) -> Any:
            try:
                if needs_cookie and not self._has_cookie(request):
                    raise RefusedError(403, "open the address that the command has printed.")
                response = await handler(request)
            except RefusedError as refusal:
                response = self._refusal(refusal.status, refusal.reason)
            except StaleError as error:
                response = self._refusal(409, str(error))
            except ValueError as error:
                response = self._refusal(400, str(error))
            except OSError as error:
                reason = f"this could not be written: {error.strerror or error}."
                response = self._refusal(507, reason)
            return _with_headers(response)

        return checked

    def _refusal(self, status: int, reason: str) -> Any:
        return self.responses.JSONResponse({"error": reason}, status_code=status)

    async def _body(self, request: Any) -> dict[str, Any]:
        """Return the JSON of a request that may change something; refuse any other request."""
        headers = request.headers
        if headers.get("origin") not in {f"http://{host}" for host in self.door.hosts}:
            raise RefusedError(403, "the request comes from another page.")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RefusedError(415, "send JSON.")
        if not _same(headers.get("x-atoll-token", ""), self.door.page_token):
            raise RefusedError(403, "the page is of an earlier run; reload it.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise RefusedError(413, f"a request has at most {MAX_BODY} bytes.")
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > MAX_BODY:
                raise RefusedError(413, f"a request has at most {MAX_BODY} bytes.")
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            raise RefusedError(400, "this is no JSON.") from None
        if not isinstance(body, dict):
            raise RefusedError(400, "send an object.")
        return body


class _HostGuard:
    """Refuse requests for any other host name than the page's own, before anything else."""

    def __init__(self, app: Any, hosts: frozenset[str]):
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        hosts = [value.decode("latin-1") for key, value in scope["headers"] if key == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            respond = import_extra("starlette.responses").PlainTextResponse(
                "this page is not served by that name.", status_code=421
            )
            await respond(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _with_headers(response: Any) -> Any:
    common = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    }
    for name, value in common.items():
        if name not in response.headers:
            response.headers[name] = value
    return response


def _policy(nonce: str) -> dict[str, str]:
    own = "'self'"
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
            f"img-src {own} data:; media-src {own}; connect-src {own}; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
    }


def _page_file(name: str) -> str:
    return files("atoll.app").joinpath("page", name).read_text(encoding="utf-8")


def _page_text(name: str, nonce: str, page_token: str) -> str:
    # Both are letters, digits, - and _ by their making.
    return _page_file(name).replace("{{nonce}}", nonce).replace("{{token}}", page_token)


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _whole(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RefusedError(400, f"{name} must be a whole number.")
    return value
