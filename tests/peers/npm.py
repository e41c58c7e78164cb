"""The npm packages of `package.json` beside this file, installed once into the environment that the tests run in."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE_S = 180.0


@cache
def peers() -> Path:
    """The folder with `node_modules`. Where it cannot be had the test is skipped with the reason; with CI=true it fails."""
    node = shutil.which("node")
    if node is None:
        raise _missing("node is not installed (Node 20 or newer, with npm, is wanted)")
    content = b"".join((HERE / name).read_bytes() for name in ("package.json", "package-lock.json"))
    folder = Path(sys.prefix) / "peers" / hashlib.sha256(content).hexdigest()[:16]
    if not (folder / "node_modules").is_dir():
        _install(folder)
    return folder


@pytest.fixture(scope="session")
def npm_peers() -> Path:
    """`peers()` before a test begins: in the middle of one that runs on trio a skip would be an error."""
    return peers()


def _install(folder: Path) -> None:
    """Beside the place where it is wanted, then in one step: two runs of the tests may do this at once."""
    npm = shutil.which("npm")
    if npm is None:
        raise _missing("npm is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, beside)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            subprocess.run(command, cwd=beside, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        except subprocess.TimeoutExpired:
            raise _missing(f"npm did not install them within {PATIENCE_S:.0f} s") from None
        except subprocess.CalledProcessError as error:
            said = next(iter(error.stderr.strip().split("\n")), "")
            raise _missing(f"npm could not install them; is there a network? It says: {said}") from None
        try:
            (Path(beside) / "node_modules").rename(_made(folder) / "node_modules")
        except OSError:
            if not (folder / "node_modules").is_dir():
                raise


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _missing(why: str) -> BaseException:
    text = f"the packages of tests/peers are needed: {why}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        return pytest.fail.Exception(text)
    return pytest.skip.Exception(text)
