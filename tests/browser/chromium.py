"""A real headless Chromium, driven over its DevTools pipe: two descriptors, no driver program, no port, no package of npm.

Source: Chrome DevTools Protocol; `--remote-debugging-pipe` reads NUL-terminated JSON from descriptor 3 and writes to 4.
"""

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 20.0
"""A condition that has not come true by then never will."""
_SWITCHES = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--no-proxy-server",
    "--window-size=1440,900",
)


# Whatever numbers the pipes have here: Chromium wants these two, and a shell may know numbers of one digit only.
_ON_3_AND_4 = """
import fcntl, os, sys
given = [fcntl.fcntl(int(text), fcntl.F_DUPFD, 10) for text in sys.argv[1:3]]
for fd, wanted in zip(given, (3, 4)):
    os.dup2(fd, wanted)
    os.close(fd)
os.execv(sys.argv[3], sys.argv[3:])
"""


class NoSuchBrowser(Exception):
    """No Chromium on this machine."""


class PageError(Exception):
    """An expression threw in the page, or a command was refused."""


@attrs.define(eq=False)
class Chromium:
    """One process. Each user of it opens pages of its own, in a context of its own: nothing is shared between them."""

    process: subprocess.Popen[bytes]
    to_it: int
    from_it: int
    _unread: bytearray = attrs.field(factory=bytearray)
    _last_id: int = 0

    def send(self, method: str, parameters: dict[str, Any], session: str | None) -> int:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = msgspec.json.encode(message) + b"\0"
        while data:
            data = data[os.write(self.to_it, data) :]
        return self._last_id

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """What it says. A message that was cut by a cancel is whole for the next who listens."""
        while True:
            end = self._unread.find(b"\0")
            if end < 0:
                await trio.lowlevel.wait_readable(self.from_it)
                data = os.read(self.from_it, 1 << 20)
                if not data:
                    raise NoSuchBrowser("Chromium has ended")
                self._unread += data
                continue
            message = msgspec.json.decode(bytes(self._unread[:end]))
            del self._unread[: end + 1]
            yield message

    @asynccontextmanager
    async def pages(self) -> AsyncIterator["Pages"]:
        """For one test: its own cookies, storage and cache."""
        async with trio.open_nursery() as nursery:
            pages = Pages(self)
            nursery.start_soon(pages.listen)
            context = await pages.call("Target.createBrowserContext", disposeOnDetach=True)
            pages.context = context["browserContextId"]
            try:
                yield pages
            finally:
                with trio.move_on_after(5) as scope:
                    scope.shield = True
                    await pages.call("Target.disposeBrowserContext", browserContextId=pages.context)
                nursery.cancel_scope.cancel()


def path_of_chromium() -> str:
    """Raises NoSuchBrowser."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise NoSuchBrowser(f"none of {', '.join(NAMES)} is installed (on Debian: apt-get install chromium)")
    return path


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start one, end it. Raises NoSuchBrowser."""
    path = path_of_chromium()
    as_root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        read_there, to_it = os.pipe()
        from_it, write_there = os.pipe()
        switches = [*_SWITCHES, *as_root, f"--user-data-dir={profile}", "about:blank"]
        command = [sys.executable, "-Sc", _ON_3_AND_4, str(read_there), str(write_there), path, *switches]
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        process = subprocess.Popen(
            command,
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**environ, "XDG_CONFIG_HOME": profile, "XDG_CACHE_HOME": profile},
            start_new_session=True,
        )
        os.close(read_there)
        os.close(write_there)
        try:
            yield Chromium(process, to_it, from_it)
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_it)
            os.close(from_it)


@attrs.define(eq=False)
class _Answer:
    ready: trio.Event = attrs.field(factory=trio.Event)
    message: dict[str, Any] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Pages:
    """The pages of one test, and what Chromium tells of them."""

    browser: Chromium
    context: str = ""
    _answers: dict[int, _Answer] = attrs.field(factory=dict)
    _listeners: dict[str, Callable[[str, dict[str, Any]], None]] = attrs.field(factory=dict)

    async def listen(self) -> None:
        async for message in self.browser.messages():
            waiting = self._answers.pop(message.get("id", 0), None)
            if waiting is not None:
                waiting.message = message
                waiting.ready.set()
            elif (listener := self._listeners.get(message.get("sessionId", ""))) is not None and "method" in message:
                listener(message["method"], message["params"])

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command and its result. Raises PageError."""
        answer = _Answer()
        self._answers[self.browser.send(method, parameters, session)] = answer
        with trio.fail_after(PATIENCE_S):
            await answer.ready.wait()
        if "error" in answer.message:
            raise PageError(f"{method}: {answer.message['error'].get('message')}")
        result: dict[str, Any] = answer.message["result"]
        return result

    async def open(self, url: str = "about:blank", *, width: int = 1440, height: int = 900, scale: float = 1) -> "Page":
        target = await self.call("Target.createTarget", url="about:blank", browserContextId=self.context)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], target["targetId"])
        self._listeners[page.session] = page.hear
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            await page.call(f"{domain}.enable")
        await page.size(width, height, scale)
        if url != "about:blank":
            await page.go(url)
        return page


@attrs.define(eq=False)
class Page:
    """One tab. `requests`: the addresses that it asked for; `complaints`: what its console and its policies said."""

    pages: Pages
    session: str
    target: str
    requests: list[str] = attrs.field(factory=list)
    complaints: list[str] = attrs.field(factory=list)
    dialogs: list[str] = attrs.field(factory=list)

    def hear(self, method: str, parameters: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning", "assert"}:
                self.complaints.append(str([each.get("value") for each in parameters["args"]]))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(parameters["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(parameters["message"])

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self.pages.call(method, self.session, **parameters)

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def size(self, width: int, height: int, scale: float = 1) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    async def media(self, **features: str) -> None:
        """`prefers_color_scheme="dark"`, `prefers_reduced_motion="reduce"`."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.call("Emulation.setEmulatedMedia", features=named)

    async def js(self, expression: str, *arguments: Any) -> Any:
        """The value of an expression; with arguments, of a function called with them. Promises are awaited."""
        if arguments:
            given = ",".join(msgspec.json.encode(each).decode() for each in arguments)
            expression = f"({expression})({given})"
        result = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in result:
            raise PageError(str(result["exceptionDetails"].get("exception", {}).get("description", result)))
        return result["result"].get("value")

    async def until(self, expression: str, *arguments: Any) -> Any:
        """Ask until it is true: its value. Fails with what the page shows when it never is."""
        last: Any = None
        with trio.move_on_after(PATIENCE_S):
            while True:
                try:
                    last = await self.js(expression, *arguments)
                except PageError as error:  # nothing to ask yet
                    last = str(error)
                else:
                    if last or last == {}:  # which is what an element looks like from here
                        return last
                await trio.sleep(0.02)
        shown = await self.js("document.body.innerText.slice(0, 2000)")
        raise AssertionError(
            f"never true: {expression} {arguments} (last: {last!r}); {self.complaints}; page:\n{shown}"
        )

    async def key(self, key: str, *, shift: bool = False) -> None:
        """Press and release one key, as a keyboard does: `j`, `Enter`, `ArrowDown`."""
        code, number, text = _KEYS.get(key, (f"Key{key.upper()}", ord(key.upper()) if len(key) == 1 else 0, key))
        down = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **down)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **down)

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.key(key)

    async def write(self, text: str) -> None:
        """Type into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def click(self, selector: str) -> None:
        """A mouse click in the middle of the first element of this selector."""
        place = await self.until(
            "(s) => { const e = document.querySelector(s); if (!e) return null; e.scrollIntoView({block: 'nearest'});"
            " const r = e.getBoundingClientRect(); return r.width ? [r.x + r.width / 2, r.y + r.height / 2] : null }",
            selector,
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.js("(s) => [...document.querySelectorAll(s)].map(e => e.textContent)", selector)
        return found

    async def text(self, selector: str) -> str:
        found: str = await self.js("(s) => document.querySelector(s)?.textContent ?? ''", selector)
        return found

    async def picture(self, path: Path) -> None:
        """A PNG of what is seen."""
        shot = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))


_KEYS: dict[str, tuple[str, int, str]] = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "Backspace": ("Backspace", 8, ""),
    " ": ("Space", 32, " "),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "/": ("Slash", 191, "/"),
    "?": ("Slash", 191, "?"),
    **{str(digit): (f"Digit{digit}", 48 + digit, str(digit)) for digit in range(10)},
}
