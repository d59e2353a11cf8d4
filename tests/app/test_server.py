"""Requests that must fail, each for its own reason, and those that must not."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from app.conftest import make_session, make_table, up_to_date, wait_for
from atoll.app.export import default_export_path
from atoll.app.server import (
    MAX_BODY,
    MOST_AT_ONCE,
    bind,
    check_address,
    make_app,
    make_door,
    make_server,
)


class Browser:
    """A browser that has come in, or one that has not."""

    def __init__(self, port, door, *, cookie=True):
        self.port, self.door = port, door
        self.host = f"127.0.0.1:{port}"
        self.headers = {"Cookie": f"{door.cookie_name}={door.cookie}"} if cookie else {}

    def ask(self, method, path, body=None, **headers):
        """Send a request; a header that is None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Host": self.host, **self.headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if body is not None and "Content-Length" not in sent:
            sent["Content-Length"] = str(len(body))
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        # All at once: what comes after a server has hung up would take its answer with it.
        connection.connect()
        parts, send, connection.send = [], connection.send, lambda part: parts.append(part)
        connection.endheaders()
        with suppress(OSError):  # a long body may come too late all the same
            send(b"".join([*parts, body or b""]))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def post(self, path, content=None, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        own = {
            "Origin": f"http://{self.host}",
            "Content_Type": "application/json",
            "X_Atoll_Token": self.door.page_token,
        }
        status, _, found = self.ask("POST", path, body, **(own | headers))
        return status, json.loads(found or b"{}")


@contextmanager
def running(session, door_password=None):
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        door = make_door("127.0.0.1", port, door_password)
        app = make_app(session, door, default_export_path(session.rows.path))
        server = make_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        try:
            yield port, door
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def browser(table, open_session):
    session = open_session(table)
    with running(session) as (port, door):
        found = Browser(port, door)
        found.session = session
        found.table = table
        yield found


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A browser before a session that no test of this file is to change."""
    table = make_table(tmp_path_factory.mktemp("untouched"))
    session = make_session(table)
    with running(session) as (port, door):
        found = Browser(port, door)
        found.session, found.table = session, table
        yield found
    session.close()


def first_row(browser):
    status, state = browser.post("/state", {"tab": "a"})
    assert status == 200
    return state["queue"][0]


def an_answer(browser, **changes):
    ask = first_row(browser)
    return {"kind": "label", "row": ask["row"], "seen": ask["seen"], "label": "cat", **changes}


def nothing_was_written(browser):
    return len(browser.session.log.path.read_bytes().splitlines()) == 1


# --- what must work ------------------------------------------------------------------------------


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_cannot_read(untouched):
    stranger = Browser(untouched.port, untouched.door, cookie=False)
    status, headers, _ = stranger.ask("GET", f"/?token={untouched.door.token}")
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    status, headers, page = untouched.ask("GET", "/")
    assert status == 200
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    nonce = policy.split("'nonce-")[1].split("'")[0]
    assert page.count(nonce.encode()) == 3
    _, again, _ = untouched.ask("GET", "/")
    assert nonce not in again["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_an_answer_is_kept_undone_redone_and_exported(browser):
    content = an_answer(browser)
    status, state = browser.post("/answer", content)
    assert (status, state["counts"]["here"]) == (200, 1)
    status, state = browser.post("/undo", {"number": state["last"]})
    assert (status, state["counts"]["here"]) == (200, 0)
    assert state["again"]["row"] == content["row"]
    status, state = browser.post("/redo", {"number": state["next_redo"]})
    assert (status, state["counts"]["here"]) == (200, 1)
    status, state = browser.post("/class", {"name": "owl"})
    assert state["classes"][-1] == "owl"
    status, found = browser.post("/export", {})
    assert (status, found["labels"]) == (200, 3)
    assert pd.read_csv(found["file"])["kind"].notna().sum() == 3
    assert browser.ask("GET", "/picture")[0] == 200
    for name in ("app.js", "map.js", "style.css"):
        assert browser.ask("GET", f"/page/{name}")[0] == 200


def test_a_second_answer_to_a_row_is_refused(browser):
    content = an_answer(browser)
    assert browser.post("/answer", content)[0] == 200
    status, found = browser.post("/answer", {**content, "label": "dog"})
    assert status == 409
    assert "in another tab" in found["error"]


# --- what must not -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/picture", "/colours", "/media/0", "/?token=guess", "/?token="]
)
def test_without_the_token_nothing_is_shown(untouched, path):
    stranger = Browser(untouched.port, untouched.door, cookie=False)
    status, _, content = stranger.ask("GET", path)
    assert status == 403
    assert b"cat" not in content
    assert untouched.door.page_token.encode() not in content


@pytest.mark.parametrize("path", ["/state", "/answer", "/undo", "/redo", "/class", "/export"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Cookie": None}, 403),
        ({"Cookie": "atoll=guess"}, 403),
        ({"X_Atoll_Token": None}, 403),
        ({"X_Atoll_Token": "guess"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://example.org"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": None}, 415),
        ({"Host": "example.org"}, 421),
        ({"Host": None}, 400),
    ],
)
def test_a_request_that_another_page_could_send_is_refused(untouched, path, headers, status):
    own = {"name": "owl", "number": 1, **an_answer(untouched)}
    ours = {"Origin": f"http://{untouched.host}", "Content_Type": "application/json"}
    ours["X_Atoll_Token"] = untouched.door.page_token
    found, _, _ = untouched.ask("POST", path, json.dumps(own).encode(), **(ours | headers))
    assert found == status
    assert nothing_was_written(untouched)
    assert not default_export_path(untouched.table).exists()


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "localhost:1", "127.0.0.1.evil.org"])
def test_another_name_for_this_machine_is_refused(untouched, host):
    for path in ("/", "/picture", "/page/app.js", f"/?token={untouched.door.token}"):
        status, headers, _ = untouched.ask("GET", path, Host=host)
        assert status == 421
        assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/..%2fserver.py",
        "/page/%2e%2e/server.py",
        "/page/..%5cserver.py",
        "/page//etc/passwd",
        "/media/..%2f..%2fetc%2fpasswd",
        "/media/../../etc/passwd",
        "/media/-1",
        "/media/999999999999999999999",
        "/media/" + "9" * 5000,
        "/media/0%00",
        "/etc/passwd",
        "//etc/passwd",
    ],
)
def test_a_path_that_leads_elsewhere_finds_nothing(untouched, path):
    status, _, content = untouched.ask("GET", path)
    assert status in (400, 404)
    assert b"root:" not in content
    assert b"import" not in content


@pytest.mark.parametrize(
    "changes",
    [
        {"row": "../../etc/passwd"},
        {"row": -1},
        {"row": 10**30},
        {"row": True},
        {"row": None},
        {"row": 1.5},
        {"seen": "0"},
        {"kind": "undo"},
        {"kind": "../label"},
        {"label": None},
        {"label": ["cat"]},
        {"label": "z" * 10_000},
        {"label": "a\0b"},
    ],
)
def test_an_answer_of_another_form_is_refused_and_nothing_kept(untouched, changes):
    status, found = untouched.post("/answer", an_answer(untouched, **changes))
    assert nothing_was_written(untouched)
    assert status == 400
    assert len(found["error"]) < 300


def test_a_list_that_is_none_is_refused(untouched):
    assert untouched.post("/state", {"have": "all"})[0] == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff", b"[" * 50_000, b'"x"', b"1"])
def test_a_body_that_is_no_object_is_refused(untouched, body):
    assert untouched.post("/state", body or b" ")[0] == 400


def test_a_body_of_ten_megabytes_is_refused(untouched):
    large = b" " * (10 * 2**20)
    assert untouched.post("/answer", large)[0] == 413
    assert untouched.post("/answer", b" " * (MAX_BODY + 1))[0] == 413
    piece = b"%x\r\n%s\r\n" % (MAX_BODY + 1, b" " * (MAX_BODY + 1))
    status, _ = untouched.post("/answer", piece, Content_Length=None, Transfer_Encoding="chunked")
    assert status == 413
    assert nothing_was_written(untouched)
    assert first_row(untouched)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(untouched, method):
    for path in ("/", "/answer", "/media/0"):
        assert untouched.ask(method, path)[0] == 405
    assert untouched.ask("GET", "/answer")[0] == 405


def test_code_in_cells_and_names_stays_text(browser):
    name = "<script>alert(1)</script>"
    status, state = browser.post("/answer", an_answer(browser, label=name))
    assert status == 200
    assert name in state["classes"]
    assert b"alert(1)" not in browser.ask("GET", "/")[2]
    _, headers, _ = browser.ask("GET", "/colours")
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"


def test_the_page_puts_nothing_in_as_html():
    from importlib.resources import files

    for name in ("app.js", "map.js"):
        code = files("atoll.app").joinpath("page", name).read_text(encoding="utf-8")
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert danger not in code, (name, danger)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run JavaScript")
@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["setosa", "versicolor", "virginica"], [["1", "s"], ["2", "v"], ["3", "i"]]),
        (["10", "1", "2"], [["a"], ["1"], ["2"]]),
        (["bird", "b", "B"], [["1", "i"], ["b"], ["3", "a"]]),
    ],
)
def test_a_class_that_is_called_as_a_key_has_that_key(names, keys):
    from importlib.resources import files

    code = files("atoll.app").joinpath("page", "app.js").read_text(encoding="utf-8")
    function = code[code.index("function keysOf") : code.index("function showClasses")]
    program = f"{function}; console.log(JSON.stringify(keysOf({json.dumps(names)})))"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == keys


def test_a_thousand_requests_at_once_are_turned_away_and_the_page_lives(browser):
    def one(_):
        try:
            return browser.ask("GET", "/picture")[0]
        except OSError:
            return None

    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(one, range(1000)))
    assert set(found) <= {200, 503, None}
    wait_for(lambda: browser.ask("GET", "/picture")[0] == 200)
    status, _ = browser.post("/answer", an_answer(browser))
    assert status == 200


def test_connections_beyond_the_limit_are_turned_away(browser):
    held = [socket.create_connection(("127.0.0.1", browser.port)) for _ in range(MOST_AT_ONCE)]
    try:
        wait_for(lambda: browser.ask("GET", "/picture")[0] == 503)
    finally:
        for connection in held:
            connection.close()
    wait_for(lambda: browser.ask("GET", "/picture")[0] == 200)


def test_answers_that_come_at_once_are_all_kept(browser):
    rows = [ask.row for ask in browser.session.snapshot.queue]

    def one(row):
        answer = {"kind": "label", "row": row, "seen": 0, "label": "cat"}
        return browser.post("/answer", answer)[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, rows)) == [200] * len(rows)
        assert set(pool.map(one, rows)) == {409}
    wait_for(lambda: up_to_date(browser.session))
    assert set(browser.session.log.answers.given) == set(rows)


# --- pictures ------------------------------------------------------------------------------------


def test_pictures_go_by_row_and_stay_in_their_folder(tmp_path, open_session):
    folder = tmp_path / "birds"
    folder.mkdir()
    for k in range(6):
        grey = np.random.default_rng(k).integers(0, 255, (8, 8), dtype=np.uint8)
        Image.fromarray(grey).save(folder / f"{k}.png")
    (tmp_path / "secret.png").write_bytes((folder / "0.png").read_bytes())
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    session = open_session(folder, target="bird")
    with running(session) as (port, door):
        browser = Browser(port, door)
        names = session.rows.frame["file"].tolist()
        status, headers, content = browser.ask("GET", f"/media/{names.index('3.png')}")
        assert (status, headers["content-type"]) == (200, "image/png")
        assert "sandbox" in headers["content-security-policy"]
        assert content == (folder / "3.png").read_bytes()
        assert browser.ask("GET", f"/media/{names.index('link.png')}")[0] == 404
        # A file that becomes a link after the start is not followed either.
        (folder / "3.png").unlink()
        (folder / "3.png").symlink_to(tmp_path / "secret.png")
        assert browser.ask("GET", f"/media/{names.index('3.png')}")[0] == 404


# --- who may listen ------------------------------------------------------------------------------


def test_a_browser_that_comes_before_the_server_runs_is_not_refused():
    with bind("127.0.0.1", 0) as listener:
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_it_listens_on_this_machine_alone(untouched):
    with bind("127.0.0.1", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with bind("localhost", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        with pytest.raises(ValueError, match="cannot listen"):
            bind("127.0.0.1", untouched.port)


@pytest.mark.parametrize(
    ("host", "allow", "password", "says"),
    [
        ("192.168.1.5", False, "a long password", "--allow-network"),
        ("192.168.1.5", True, None, "password"),
        ("192.168.1.5", True, "short", "at least 12"),
        ("0.0.0.0", True, "a long password", "listen everywhere"),
        ("example.org", True, "a long password", "IPv4 address"),
    ],
)
def test_another_address_needs_a_flag_and_a_password(host, allow, password, says):
    with pytest.raises(ValueError, match=says):
        check_address(host, allow, password)
    check_address("127.0.0.1", False, None)
    check_address("192.168.1.5", True, "a long password")


def test_a_password_lets_in_and_wrong_ones_have_to_wait(table, open_session):
    session = open_session(table)
    with running(session, door_password="correct horse") as (port, door):
        stranger = Browser(port, door, cookie=False)
        status, headers, page = stranger.ask("GET", "/")
        assert (status, b"Password" in page) == (200, True)
        assert "set-cookie" not in headers
        assert stranger.ask("GET", "/?token=None")[0] == 200  # the same question again
        assert stranger.post("/state")[0] == 403
        own = {
            "Origin": f"http://{stranger.host}",
            "Content_Type": "application/json",
            "X_Atoll_Token": door.page_token,
        }
        good = json.dumps({"password": "correct horse"}).encode()
        status, headers, _ = stranger.ask("POST", "/login", good, **own)
        assert (status, "HttpOnly" in headers["set-cookie"]) == (200, True)
        assert stranger.ask("POST", "/login", good, **(own | {"Origin": "http://evil"}))[0] == 403
        bad = json.dumps({"password": "battery staple"}).encode()
        found = [stranger.ask("POST", "/login", bad, **own)[0] for _ in range(7)]
        assert found == [403] * 5 + [429] * 2
        assert stranger.ask("POST", "/login", good, **own)[0] == 429


def test_a_disk_that_is_full_is_told(browser, monkeypatch):
    content = an_answer(browser)

    def full(line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(browser.session.log, "_write", full)
    status, found = browser.post("/answer", content)
    assert status == 507
    assert "No space left" in found["error"]
