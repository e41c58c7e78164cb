"""Makes the dashboard's picture of the README: a scripted tree at work, seen in a headless Chromium.

    .venv/bin/python -m examples.pictures.dashboard

Needs Chromium (on Debian: apt-get install chromium) and nothing else: no key, no network.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

from tests.browser.chromium import Chromium, chromium

HERE = Path(__file__).parent
SAPWOOD = Path(sys.executable).with_name("sapwood")
WORK = '#!/bin/sh\nexec sleep "$1"\n'
PROMPT = "Port the billing package to API v3. Keep invoices, refunds and webhooks compatible."
SIZE = (1440, 900)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home, cwd = Path(folder) / "home", Path(folder) / "shop"
        cwd.mkdir()
        (cwd / "billing.toml").write_bytes((HERE / "billing.toml").read_bytes())
        (cwd / "work").write_text(WORK)
        (cwd / "work").chmod(0o755)
        environ = {**os.environ, "SAPWOOD_HOME": str(home)}
        options = [
            "-m",
            "scripted/billing.toml",
            "--name",
            "port-billing",
            "--max-live-children",
            "64",
            "--max-cost",
            "10",
        ]
        tree = subprocess.Popen(
            [SAPWOOD, "run", "-q", *options, PROMPT],
            cwd=cwd,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        shown = subprocess.Popen([SAPWOOD, "dashboard"], cwd=cwd, env=environ, stdout=subprocess.PIPE, text=True)
        try:
            assert shown.stdout is not None
            trio.run(picture, browser, shown.stdout.readline().strip())
        finally:
            for process in (shown, tree):
                process.send_signal(signal.SIGINT)
                process.wait(20)
    print(f"wrote {HERE / 'dashboard.png'}")


async def picture(browser: Chromium, address: str) -> None:
    """When everything that the script has is under way: the tree unfolded, its root selected."""
    async with browser.pages() as pages:
        page = await pages.open(address, width=SIZE[0], height=SIZE[1])
        await page.until("document.querySelector('.row')")
        await page.key("2")
        for text in ("failed", "retrying", "limit reached", "12 completed"):
            await page.until("(text) => document.querySelector('.grid').innerText.includes(text)", text)
        await trio.sleep(4)
        await page.keys("g", "j", "g")
        await page.until(
            "document.querySelectorAll('.panel .box').length > 5 && document.querySelectorAll('.lane').length > 6"
        )
        await trio.sleep(1)
        await page.picture(HERE / "dashboard.png")


if __name__ == "__main__":
    main()
