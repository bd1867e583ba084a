"""One rule for every server of ours, tried on all of them: by raw requests, over real sockets."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eagerstream._support.serving.asgi_server import ThreadedServer
from eagerstream_lab._wire import WireProxy
from eagerstream_progress import Hub
from eagerstream_progress.agui import agui_app
from eagerstream_progress.gateway import RunSlots, gateway_app
from eagerstream_progress.mcp_apps import mcp_apps_app
from eagerstream_progress.vercel import vercel_app
from eagerstream_progress.web import serve, web_app
from eagerstream_testing import ReplayServer, reply, text
from eagerstream_testing.capture import RecordingProxy
from tests.source_tree import sources

TOKEN = "token-of-the-tests"
NAMES = {"hosts": ["tools.example", "other.example:81"], "origins": ["https://app.example", "http://localhost:3000"]}


def start(_: Any) -> Any:
    raise AssertionError("no run is started")


@dataclass
class Served:
    """A server of ours.

    Attributes:
        path: A path that it answers.
        headers: Headers that clients of it send.
        configure: It takes names.
        is_page: Other pages may link to it.
        tells_browsers: It says which origins are allowed, and does not pass on what another server says.
    """

    port: int
    path: str = "/"
    headers: str = ""
    configure: bool = True
    is_page: bool = False
    tells_browsers: bool = True

    def send(self, *headers: str, method: str = "GET", target: str = "", version: str = "1.1", host: str = "") -> str:
        """Return the response to a request. `{port}` stands for the port of the server."""
        named = [host or "Host: 127.0.0.1:{port}", self.headers.strip(), *headers, "Connection: close"]
        lines = [f"{method} {target or self.path} HTTP/{version}", *filter(None, named), "", ""]
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall("\r\n".join(lines).replace("{port}", str(self.port)).replace("{none}\r\n", "").encode())
            answer = b""
            while piece := connection.recv(65_536):
                answer += piece
        return answer.decode()

    def status(self, *headers: str, **request: str) -> int:
        return int(self.send(*headers, **request).split()[1])


async def says_hi(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def upstream_of(stack: ExitStack) -> str:
    server = ThreadedServer(lambda: says_hi, name="upstream", host="127.0.0.1", port=0)
    return stack.enter_context(server).base_url


@contextmanager
def proxy(stack: ExitStack, folder: Path, **options: Any) -> Iterator[Served]:
    with RecordingProxy(upstream_of(stack), folder, **options) as server:
        yield Served(server.port, tells_browsers=False)


@contextmanager
def measuring_proxy(stack: ExitStack, _: Path, **_options: Any) -> Iterator[Served]:
    with WireProxy(upstream_of(stack)) as server:
        yield Served(server.port, configure=False, tells_browsers=False)


@contextmanager
def double(_stack: ExitStack, _: Path, **options: Any) -> Iterator[Served]:
    with ReplayServer(reply(text("hi")), **options) as server:
        yield Served(server.port)


@contextmanager
def page(_stack: ExitStack, _: Path, **options: Any) -> Iterator[Served]:
    with serve(Hub(), token=TOKEN, **options) as server:
        yield Served(server.port, headers=f"Authorization: Bearer {TOKEN}", is_page=True)


def application(make: Callable[..., Any], path: str, *, is_page: bool = False) -> Callable[..., Any]:
    @contextmanager
    def serving(_stack: ExitStack, _: Path, **options: Any) -> Iterator[Served]:
        with ThreadedServer(lambda: make(**options), name="application", host="127.0.0.1", port=0) as server:
            yield Served(server.port, path, is_page=is_page)

    return serving


SERVERS: dict[str, Callable[..., Any]] = {
    "recording proxy": proxy,
    "measuring proxy": measuring_proxy,
    "double": double,
    "page": page,
    "mounted page": application(lambda **options: web_app(Hub(), token=None, **options), "/", is_page=True),
    "gateway": application(lambda **options: gateway_app(start, slots=RunSlots(1), **options), "/runs"),
    "agui": application(lambda **options: agui_app(start, **options), "/"),
    "mcp apps": application(lambda **options: mcp_apps_app(Hub(), {}, **options), "/apps/none"),
    "vercel": application(lambda **options: vercel_app(start, **options), "/api/chat"),
}
METHODS = ["GET", "HEAD", "POST", "OPTIONS", "DELETE"]
REFUSED = {403, 421}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Each server, with names and origins of its own if it takes some."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("recordings")
        yield stack.enter_context(SERVERS[request.param](stack, folder, **NAMES))


def test_other_names_are_refused(server: Served) -> None:
    """A page can give its own name our address. The refusal says how to allow the name, and repeats nothing odd."""
    for name in [
        "evil.example:{port}",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:{port}",
        "localhost..",
        "0.0.0.0:{port}",
        "10.0.0.1",
        "[::2]:{port}",
        "other.example:{port}",
        "x.tools.example",
    ]:
        answer = server.send(host=f"Host: {name}")
        assert answer.split()[1] == "421", name
        shown = re.sub(r":\d+$|\.$|[][]", "", name.replace("{port}", "1"))
        assert f"--allow-host {shown}" in answer, name
        assert "content-type: text/html" not in answer
    for name in ["", "me@127.0.0.1", "127.0.0.1, evil.example", "<b>evil</b>", "127.0.0.1/", "localhost:80:80"]:
        answer = server.send(host=f"Host: {name}")
        assert answer.split()[1] in ("421", "400"), name
        assert "evil" not in answer
    for method in METHODS:
        assert server.status(method=method, host="Host: evil.example:{port}") == 421, method


def test_no_name_or_two(server: Served) -> None:
    """A request of HTTP/1.0 may have none, and one with two names the one or the other for whoever reads it."""
    assert server.status(host="{none}", version="1.0") == 421
    assert server.status(host="{none}") in (400, 421)
    assert server.status(host="Host: 127.0.0.1:{port}\r\nHost: evil.example") in (400, 421)
    assert server.status(host="Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}") in (400, 421)


def test_names_in_the_target(server: Served) -> None:
    """They would take the place of the header."""
    for target in ["http://evil.example/", "http://127.0.0.1:{port}/", "evil.example:443", "*"]:
        assert server.status(target=target) == 421, target


def test_own_names_are_answered(server: Served) -> None:
    """Those of this machine at any port, since one may be forwarded, and those that are configured."""
    names = ["127.0.0.1", "127.0.0.1:1", "localhost:{port}", "LocalHost", "localhost.:{port}", "[::1]:{port}"]
    if server.configure:
        names += ["tools.example", "TOOLS.example.:99", "other.example:81"]
    for name in names:
        assert server.status(host=f"Host: {name}") not in REFUSED | {401, 400}, name
    assert server.status(version="1.0") not in REFUSED


def test_pages_from_elsewhere_are_refused(server: Served) -> None:
    """They can send requests, though they may not read the responses; so can a page of another program here."""
    for header in [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1",
        "Origin: http://127.0.0.1:1",
        "Origin: http://localhost:{port}",
        "Origin: ftp://127.0.0.1:{port}",
        "Origin: http://127.0.0.1:{port}/",
        "Origin: http://127.0.0.1:{port}.evil.example",
        "Origin: https://app.example.evil.example",
        "Origin: https://app.example\r\nOrigin: https://evil.example",
        "Origin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: cross-site\r\nOrigin: https://evil.example",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nOrigin: https://evil.example",
    ]:
        answer = server.send(header)
        assert answer.split()[1] == "403", header
        assert "<" not in answer.partition("\r\n\r\n")[2]
        assert ('origins=["https://evil.example"]' in answer.replace("\\", "")) is (
            header.count("Origin") == 1 and header.endswith("https://evil.example")
        )
    for method in METHODS:
        assert server.status("Origin: https://evil.example", method=method) == 403, method
    preflight = "Origin: https://evil.example", "Access-Control-Request-Method: POST"
    assert "access-control-allow" not in server.send(*preflight, method="OPTIONS").lower()


def test_own_pages_are_answered(server: Served) -> None:
    """Those of the server itself, also behind a proxy that speaks HTTPS, and those of configured origins."""
    own = ["Origin: http://127.0.0.1:{port}", "Origin: HTTP://127.0.0.1:{port}", "Sec-Fetch-Site: none"]
    if server.configure:
        own += ["Origin: https://app.example\r\nSec-Fetch-Site: cross-site", "Origin: http://localhost:3000"]
        behind_proxy = "Origin: https://tools.example"
        for host in ("tools.example", "tools.example:443"):
            assert server.status(behind_proxy, host=f"Host: {host}") not in REFUSED
        assert server.status(behind_proxy, host="Host: tools.example:80") == 403
    for header in own:
        assert server.status(header) not in REFUSED, header


def test_browsers_learn_which_origins_are_allowed(server: Served) -> None:
    """A preflight is answered without the token, and each response, so that a page can read what was refused, too."""
    if not server.tells_browsers:
        return
    origin, method = "Origin: https://app.example", "Access-Control-Request-Method: POST"
    asked = "Access-Control-Request-Headers: authorization,content-type"
    without_token = replace(server, headers="")
    answer = without_token.send(origin, method, asked, method="OPTIONS").lower()
    assert answer.split()[1] == "204"
    for told in (
        "origin: https://app.example\r",
        "headers: authorization,content-type\r",
        "methods: get, head, post, delete\r",
    ):
        assert f"access-control-allow-{told}" in answer
    assert "credentials" not in answer
    for given in ((origin,), (origin, "Authorization: Bearer wrong")):
        assert "access-control-allow-origin: https://app.example\r" in without_token.send(*given).lower()
    assert "access-control" not in server.send().lower()
    assert server.status(origin, method, host="Host: evil.example", method="OPTIONS") == 421


def test_links_lead_to_pages_only(server: Served) -> None:
    """A link in a chat or a mail opens a page of ours, for a person to see. It makes no request to an API."""
    link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document"
    assert (server.status(link) == 200) is server.is_page
    assert server.status(link, method="POST") == 403


# --- other machines ---------------------------------------------------------------------------------------------------


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    """A server that they can reach has one, unasked: each asks for it in its own way, and takes no other text."""
    with (
        ReplayServer(reply(text("hi")), host="0.0.0.0") as double,
        RecordingProxy(double.base_url, tmp_path, host="0.0.0.0") as proxy,
        serve(Hub(), host="0.0.0.0") as page,
        ReplayServer(reply(text("hi")), host="0.0.0.0", token=TOKEN) as given,
    ):
        token = double.token
        assert token is not None
        assert double.environment()["ANTHROPIC_API_KEY"] == token
        assert proxy.base_url.removeprefix(f"http://0.0.0.0:{proxy.port}/").isascii()
        assert given.token == TOKEN
        asked = Served(double.port)
        signed = "Authorization: AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/bedrock/aws4_request, Signature=0"
        for form in ["x-api-key: {}", "Authorization: Bearer {}", "authorization: bearer {}", "api-key: {}", signed]:
            assert asked.status(form.format(token)) == 200, form
            for wrong in ("", token[:-1], token + "x", token.swapcase(), "any"):
                assert asked.status(form.format(wrong)) == 401, (form, wrong)
        assert Served(proxy.port).status() == 401
        assert Served(proxy.port, "/" + proxy.base_url.rpartition("/")[2]).status(f"x-api-key: {token}") == 200
        assert Served(page.port).status() == 401
        assert Served(page.port).status(f"Authorization: Bearer {page.token}") == 200
        for port in (double.port, proxy.port, page.port):
            assert Served(port).status(host="Host: evil.example") == 421
            assert Served(port).status(host="Host: 0.0.0.0:{port}") == 401


def test_no_server_is_left_out() -> None:
    """Whatever listens is one of those above."""
    listening = re.compile(
        r"\(ThreadedServer\)|create_server\(|listener\.listen\(|uvicorn\.Server\b|start_server\(|add_site\("
    )
    found = {
        (path.relative_to(folder.parent).as_posix(), match[0])
        for folder in sources().values()
        for path in folder.rglob("*.py")
        for match in listening.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == {
        ("eagerstream/_support/serving/asgi_server.py", "create_server("),
        ("eagerstream/_support/serving/asgi_server.py", "uvicorn.Server"),
        ("eagerstream_testing/capture/_proxy.py", "(ThreadedServer)"),
        ("eagerstream_lab/_wire.py", "(ThreadedServer)"),
        ("eagerstream_progress/web/_server.py", "(ThreadedServer)"),
        ("eagerstream_testing/_server.py", "(ThreadedServer)"),
    }
    apps = {
        match[1]
        for folder in sources().values()
        for path in folder.rglob("*.py")
        for match in re.finditer(r"^def (\w+_app)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    served = {"agui_app", "gateway_app", "mcp_apps_app", "vercel_app", "web_app"}
    assert apps - {"forwarding_app", "new_app", "run_app"} == served
