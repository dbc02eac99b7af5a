"""A headless Chromium, driven by its DevTools protocol over two pipes: no driver and no package beside the browser."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

# For what a page shows after a request; a busy machine is slow.
PATIENCE_S = 60

FLAGS = [
    "--headless",
    "--no-sandbox",  # it runs as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
]


class Browser:
    """One page of a browser with a profile of its own; `close` ends it."""

    def __init__(self, *flags: str) -> None:
        program = shutil.which("chromium") or sys.exit("there is no chromium; `make setup` installs it")
        self._folder = tempfile.TemporaryDirectory()
        commands, self._commands = os.pipe()
        replies, self._replies_end = os.pipe()
        # the browser reads commands at 3 and writes replies at 4
        redirect = f'exec "$@" 3<&{commands} 4>&{self._replies_end}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", redirect, "bash", program, *FLAGS, f"--user-data-dir={self._folder.name}", *flags],
            pass_fds=(commands, self._replies_end),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(self._replies_end)
        self._replies = os.fdopen(replies, "rb", buffering=1 << 16)
        self._sent = 0
        self._session: str | None = None
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            self._session = None
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its result."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = json.loads(self._read())
            if reply.get("method") == "Runtime.exceptionThrown":
                details = reply["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            if reply.get("id") == self._sent:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]

    def _read(self) -> bytes:
        message = bytearray()
        while (byte := self._replies.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser ended")
            message += byte
        return bytes(message)

    def open(self, url: str) -> None:
        """Opens a page, also when only the part behind `#` differs from the one that is open."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        how = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        reply = self.call("Runtime.evaluate", expression=script, **how)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"{script}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def wait(self, script: str) -> Any:
        """Waits until an expression is true in the sense of JavaScript, and returns its value."""
        until = time.monotonic() + PATIENCE_S
        while True:
            # while a page is replaced there is nothing to ask
            with contextlib.suppress(RuntimeError):
                # an element has no value that could be sent: `{}`
                if (value := self.run(script)) not in (None, False, 0, ""):
                    return value
            if time.monotonic() > until:
                shown = self.run("document.body.innerText")
                raise AssertionError(f"waited in vain for {script}; the page shows:\n{shown}\n{self.errors}")
            time.sleep(0.05)

    def texts(self, selector: str) -> list[str]:
        """The text of each element."""
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.innerText)")

    def text(self, selector: str) -> str:
        """The text of an element, once it has some."""
        return self.wait(f"document.querySelector({json.dumps(selector)})?.innerText")

    def fill(self, selector: str, text: str) -> None:
        """Replaces the value of a field as typing does."""
        node = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{node}.focus(), {node}.value = ''")
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        """Presses a key, such as `Enter`, 13."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    def click(self, selector: str) -> None:
        """Clicks an element."""
        self.wait(f"document.querySelector({json.dumps(selector)})?.click() ?? true")

    def resize(self, width: int, height: int = 800) -> None:
        """Gives the page this size in pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
