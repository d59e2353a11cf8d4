"""A real browser before the command as a user starts it.

Run by `make test-browser`; skipped where Playwright or a browser is missing. Screenshots are
written to build/screenshots/.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def chromium_path():
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    path = chromium_path()
    if path is None:
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Server:
    """`atoll label` in a process of its own."""

    def __init__(self, *arguments):
        program = [sys.executable, "-c", "from atoll.cli import main; main()", "label"]
        self.process = subprocess.Popen(
            [*program, *map(str, arguments), "--no-browser"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = []
        address = queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(address,), daemon=True)
        self.reader.start()
        self.address = address.get(timeout=120)
        assert self.address is not None, "".join(self.said)

    def text(self):
        """What it has said, without its line breaks."""
        return " ".join("".join(self.said).split())

    def _read(self, address):
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"^Open (http://\S+)", line):
                address.put(found[1])
        address.put(None)

    def _close(self):
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def kill(self):
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self._close()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
        self._close()


@pytest.fixture
def start():
    servers = []

    def make(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]

    yield make
    for server in servers:
        if server.process.poll() is None:
            server.stop()


class Labeller:
    """A person before the page."""

    def __init__(self, page, truth=None):
        self.page, self.truth, self.faults = page, truth, []
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("console", self._hear)
        page.on("dialog", lambda dialog: (self.faults.append(dialog.message), dialog.dismiss()))

    def _hear(self, message):
        # Requests that are refused on purpose are told as such; all else is a fault of the page.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(message.text)

    def open(self, server):
        self.page.goto(server.address)
        self.wait_for_row()
        return self

    def wait_for_row(self):
        self.page.wait_for_function("() => queue.length > 0", timeout=60_000)

    def row(self):
        return int(self.page.get_attribute("#card", "data-row"))

    def press_class(self, name):
        """Answer by the key of a class, or by typing the name of one that is new."""
        key = self.page.evaluate("n => ([...keys].find(([, v]) => v === n) || [])[0]", name)
        if key is not None:
            self.page.keyboard.press(key)
            return
        self.page.keyboard.press("+")
        self.page.keyboard.type(name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_function("n => state.classes.includes(n)", arg=name)

    def label(self, pause=120):
        """Answer the row shown as the truth has it; return it."""
        self.wait_for_row()
        row = self.row()
        self.press_class(str(self.truth[row]))
        self.page.wait_for_timeout(pause)
        return row

    def saved(self):
        self.page.wait_for_function(
            "() => outbox.length === 0 && !isSending && !isLost", timeout=30_000
        )

    def learnt(self):
        self.saved()
        self.page.wait_for_function("() => state.learnt === state.n_events", timeout=60_000)

    def counts(self):
        return self.page.evaluate("() => state.counts")

    def toast(self):
        self.page.wait_for_selector("#toast:not([hidden])")
        return self.page.text_content("#toast")

    def screenshot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.evaluate("() => scrollTo(0, 0)")
        self.page.wait_for_timeout(1500)  # colours come a moment later
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")


@pytest.fixture
def person(chromium):
    """Open pages; at the end none may have had an error."""
    contexts, people = [], []

    def make(truth=None, *, context=None, **options):
        options = {"viewport": {"width": 1240, "height": 860}, **options}
        if context is None:
            context = chromium.new_context(**options)
            contexts.append(context)
        people.append(Labeller(context.new_page(), truth))
        return people[-1]

    yield make
    faults = [fault for one in people for fault in one.faults]
    for context in contexts:
        context.close()
    assert faults == []
