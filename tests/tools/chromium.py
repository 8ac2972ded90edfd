"""Drive a headless Chromium over its DevTools protocol, with the standard library only."""

import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """Return the path of a Chromium, or None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Socket:
    """A websocket client, which sends masked text messages and receives text messages."""

    def __init__(self, url):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, port = host.split(":")
        self.stream = socket.create_connection((name, int(port)), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall((f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.stream.recv(1)
        assert b" 101 " in head, head

    def send(self, text):
        body, mask = text.encode(), os.urandom(4)
        size = len(body)
        head = bytes([0x81]) + (bytes([0x80 | size]) if size < 126 else
                                struct.pack("!BH", 0xFE, size) if size < 1 << 16 else
                                struct.pack("!BQ", 0xFF, size))
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(body))
        self.stream.sendall(head + mask + masked)

    def receive(self):
        text = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size > 125:
                size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
            body = self._take(size)
            if first & 0x0F in (0, 1):
                text += body
                if first & 0x80:
                    return text.decode()

    def _take(self, size):
        found = b""
        while len(found) < size:
            part = self.stream.recv(size - len(found))
            assert part, "the browser closed the connection"
            found += part
        return found


class Page:
    """A browser tab. `requests` are the addresses it loaded, `complaints` its console messages."""

    def __init__(self, url):
        self.socket, self.count = Socket(url), 0
        self.requests, self.complaints = [], []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            self._note(message)
            if message.get("id") == self.count:
                assert "error" not in message, message["error"]
                return message["result"]

    def _note(self, message):
        what, params = message.get("method"), message.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def open(self, url, ready="document.body && document.body.dataset.step !== undefined"):
        self.call("Page.navigate", url=url)
        self.wait(ready)

    def wait(self, condition, seconds=20):
        end = time.time() + seconds
        while not self.value(condition):
            assert time.time() < end, f"waited {seconds} s for {condition}"
            time.sleep(0.05)

    def value(self, expression):
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key, code=None):
        """Press and release one key."""
        names = {" ": ("Space", 32), "ArrowRight": ("ArrowRight", 39),
                 "ArrowLeft": ("ArrowLeft", 37), "ArrowDown": ("ArrowDown", 40),
                 "ArrowUp": ("ArrowUp", 38), "End": ("End", 35), "Home": ("Home", 36),
                 "Tab": ("Tab", 9), "Enter": ("Enter", 13)}
        code, number = names.get(key, (f"Key{key.upper()}", ord(key.upper()[0])))
        extra = {"text": key if key != "Enter" else "\r"} if len(key) == 1 or key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code,
                      windowsVirtualKeyCode=number, **(extra if kind == "keyDown" else {}))

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def dark(self, on=True):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}])


@contextlib.contextmanager
def open_browser():
    """Yield the Page of a new browser, which is closed at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking",
                   "--remote-debugging-port=0", f"--user-data-dir={home}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page = None
        try:
            page = Page(_find_tab_address(Path(home) / "DevToolsActivePort"))
            yield page
        finally:
            if page is not None:
                page.socket.stream.close()
            process.terminate()
            process.wait(20)


def _find_tab_address(port_file, seconds=60):
    """Return the websocket address of the browser's first tab."""
    end = time.time() + seconds
    while time.time() < end:
        with contextlib.suppress(OSError, IndexError, StopIteration, ValueError):
            port = int(port_file.read_text().splitlines()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5) as found:
                tabs = json.load(found)
            return next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page")
        time.sleep(0.1)
    raise AssertionError("the browser did not open its DevTools port")
