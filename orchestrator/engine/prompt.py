"""The prompt of a run: words of the command line, @files, and what is piped in."""

import base64
import os
import select
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.engine.errors import WrongUsage
from orchestrator.tools.kinds import image_type
from store.messages import ImageContent, TextContent, Visible
from store.wire import encode

STDIN_PATIENCE_S = 3.0
MAX_FILE_BYTES = 8 << 20
# All of it is one record of the journal, which takes 64 MiB.
MAX_PROMPT_BYTES = 32 << 20


def prompt_content(words: Sequence[str], piped: str, cwd: Path) -> str | tuple[Visible, ...]:
    """The content of the first message. `@FILE` among the words is that file; `@@` stands for a literal `@`.

    Raises WrongUsage for a file that cannot be given, and where nothing is left to say.
    """
    said: list[str] = []
    files: list[Visible] = []
    for word in words:
        if word.startswith("@@"):
            said.append(readable(word[1:]))
        elif word.startswith("@") and len(word) > 1:
            files += _file(word[1:], cwd)
        else:
            said.append(readable(word))
    text = " ".join(said).strip()
    texts = [block.text for block in files if isinstance(block, TextContent)]
    whole = "\n\n".join(part for part in (piped.strip(), *texts, text) if part)
    images = tuple(block for block in files if isinstance(block, ImageContent))
    size = len(encode(whole)) + sum(len(image.data) for image in images)
    if size > MAX_PROMPT_BYTES:
        raise WrongUsage(f"expected a prompt of at most {MAX_PROMPT_BYTES} bytes with all its files, found {size}")
    if not whole and not images:
        raise WrongUsage('no prompt; try: sapwood "What does this project do?" (or `sapwood demo`, which needs no key)')
    return (*((TextContent(text=whole),) if whole else ()), *images) if images else whole


def readable(argument: str) -> str:
    """An argument of the command line as text: bytes that are no UTF-8 are replaced, since no journal could hold them."""
    return os.fsencode(argument).decode("utf-8", "replace")


def _file(name: str, cwd: Path) -> list[Visible]:
    path = cwd / os.path.expanduser(name)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise WrongUsage(f"@{name}: expected a file, found something else at {path}")
        data = path.read_bytes()
    except OSError as error:
        hint = f'; if no file is meant, write "@@{name}"' if isinstance(error, FileNotFoundError) else ""
        raise WrongUsage(f"@{name}: {path} cannot be read: {error.strerror}{hint}") from error
    if len(data) > MAX_FILE_BYTES:
        raise WrongUsage(f"@{name}: expected at most {MAX_FILE_BYTES} bytes, found {len(data)}")
    mime = image_type(data)
    if mime is not None:
        return [ImageContent(data=base64.b64encode(data).decode(), mime_type=mime)]
    if b"\0" in data:
        raise WrongUsage(f"@{name}: expected text or an image, found binary data")
    return [TextContent(text=f'<file name="{readable(name)}">\n{data.decode("utf-8", "replace")}\n</file>')]


def piped_text(fd: int, has_prompt: bool, warn: Callable[[str], None], patience_s: float = STDIN_PATIENCE_S) -> str:
    """What is piped into this process, to its end; nothing where stdin is a terminal or no pipe and no file.

    With a prompt at hand a pipe that stays silent so long is left alone: some programs keep one open and never write.
    """
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return ""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return ""
    if has_prompt and stat.S_ISFIFO(mode) and not select.select([fd], [], [], patience_s)[0]:
        warn(f"nothing came from stdin in {patience_s:g} s; going on without it (</dev/null avoids the wait)")
        return ""
    data = bytearray()
    while chunk := os.read(fd, 1 << 16):
        data += chunk
        if len(data) > MAX_FILE_BYTES:
            raise WrongUsage(f"stdin: expected at most {MAX_FILE_BYTES} bytes")
    return data.decode("utf-8", "replace")
