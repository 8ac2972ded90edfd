"""Drive a headless Chromium over its DevTools pipe, with the standard library only."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
KEYS = {" ": 32, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}


def find_browser():
    """Return the path of a Chromium, or None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A browser tab. `requests` are the addresses it loaded, `complaints` its console messages."""

    def __init__(self, process):
        self.process, self.count, self.session, self.received = process, 0, {}, b""
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params, **self.session}
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        while True:
            message = self._receive()
            self._note(message)
            if message.get("id") == self.count:
                assert "error" not in message, message["error"]
                return message["result"]

    def _receive(self):
        while b"\0" not in self.received:
            part = self.process.stdout.read1()
            assert part, "the browser closed the connection"
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

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
        while not self.evaluate(condition):
            assert time.time() < end, f"waited {seconds} s for {condition}"
            time.sleep(0.05)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key):
        """Press and release one key."""
        number = KEYS.get(key) or ord(key.upper())
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=number,
                      **text)

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def set_dark(self, on=True):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}])


@contextlib.contextmanager
def open_page():
    """Yield the Page of a new browser, which is closed at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        # Chromium reads from descriptor 3 and writes to 4.
        command = ["sh", "-c", 'exec "$@" 3<&0 4>&1 >/dev/null', "sh", find_browser(),
                   "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking",
                   "--remote-debugging-pipe", f"--user-data-dir={home}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            try:
                yield Page(process)
            finally:
                process.terminate()
