"""A browser for tests, driven by the DevTools protocol over a pipe: no library, no port.

The browser reads messages from its descriptor 3 and writes to 4; each is JSON that ends with NUL.
A wait is a promise in the page, so the test's process never sleeps. What the page's console says,
and what its security policy forbids, is kept in ``Tab.troubles``.
"""

import base64
import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.chromium import Chromium

#: Longer than anything here takes on a busy machine.
PATIENCE_S = 60
_PART_BYTES = 1 << 16

Message = dict[str, Any]


class BrowserError(Exception):
    """The browser, or the page in it, says that something failed."""


class Browser:
    """One browser process."""

    def __init__(self, process: "subprocess.Popen[bytes]", to: int, back: int) -> None:
        self._process = process
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self.events: list[Message] = []

    def call(self, method: str, session: str | None = None, **given: object) -> Message:
        """Send one message, and give its answer."""
        self._number += 1
        number = self._number
        message: Message = {"id": number, "method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") != number:
                self.events.append(heard)
                continue
            if "error" in heard:
                raise BrowserError(f"{method}: {heard['error']}")
            found: Message = heard["result"]
            return found

    def _next(self) -> Message:
        until_s = time.monotonic() + PATIENCE_S  # noqa: TID251 a hang guard
        while b"\0" not in self._buffer:
            left_s = until_s - time.monotonic()  # noqa: TID251 a hang guard
            if left_s <= 0 or not select.select([self._back], [], [], left_s)[0]:
                raise BrowserError(f"the browser says nothing for {PATIENCE_S} s")
            part = os.read(self._back, _PART_BYTES)
            if not part:
                raise BrowserError(f"the browser has ended: {self._process.poll()}")
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        found: Message = json.loads(raw)
        return found

    def tab(self) -> "Tab":
        """Open a tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session)


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **given: object) -> Message:
        """Send a message about this page."""
        return self._browser.call(method, self._session, **given)

    def go(self, url: str) -> None:
        """Load a page."""
        found = self.call("Page.navigate", url=url)
        if "errorText" in found:
            raise BrowserError(f"{url}: {found['errorText']}")
        self.until("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """Give the value of an expression in the page; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            said = details.get("exception", {}).get("description") or details.get("text")
            raise BrowserError(f"{script}: {said}")
        return found["result"].get("value")

    def until(self, condition: str, within_s: float = PATIENCE_S / 2) -> Any:
        """Wait until an expression is true in the page; give its value."""
        return self.evaluate(
            "new Promise((done, failed) => { const end = Date.now() + "
            f"{within_s * 1000}; const look = () => {{ let found; try {{ found = ({condition}); }} "
            "catch (error) { found = null; } if (found) done(found); else if (Date.now() > end) "
            "failed(new Error('never true; the page says: ' "
            "+ (document.querySelector('dialog[open]') || document.body).innerText.slice(0, 3000)"
            ")); else setTimeout(look, 50); }; look(); })"
        )

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a person's mouse does."""
        box = self.until(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); "
            "if (!one) return null; one.scrollIntoView({block: 'center'}); "
            "const box = one.getBoundingClientRect(); "
            "return box.width ? {x: box.x + box.width / 2, y: box.y + box.height / 2} : null; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)

    def type(self, text: str) -> None:
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key; ``text`` is what it types."""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the colours that the person prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a picture of the page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    @property
    def troubles(self) -> list[str]:
        """What the page's console has said so far that is an error, the policy's included."""
        self.evaluate("1")  # what was said before this is here now
        return [said for event in self._browser.events if (said := _trouble(event, self._session))]


def _trouble(event: Message, session: str) -> str:
    if event.get("sessionId") != session:
        return ""
    params: Mapping[str, Any] = event["params"]
    match event["method"]:
        case "Runtime.exceptionThrown":
            return json.dumps(params["exceptionDetails"])
        case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
            return f"{params['entry']['text']} {params['entry'].get('url', '')}"
        case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
            return json.dumps(params["args"])
        case _:
            return ""


@contextlib.contextmanager
def browser(chromium: Chromium, profile: Path) -> Iterator[Browser]:
    """Give a browser with a new profile; it ends with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    command = [
        *("bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", str(chromium.program)),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
        *("--disable-extensions", "--disable-sync", "--hide-scrollbars", "--lang=en-US"),
        *("--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"),
    ]
    log = (profile.parent / f"{profile.name}.log").open("wb")
    process = subprocess.Popen(
        command,
        env={**chromium.environment(), "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(theirs_in, theirs_out),
    )
    os.close(theirs_in)
    os.close(theirs_out)
    made = Browser(process, ours_out, ours_in)
    try:
        made.call("Browser.getVersion")
        yield made
    finally:
        with contextlib.suppress(BrowserError, OSError):
            made.call("Browser.close")
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(ours_out)
        os.close(ours_in)
        log.close()
