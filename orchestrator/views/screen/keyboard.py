"""Bytes of a terminal as keys: `up`, `enter`, `esc`, `ctrl-c`, or the character itself."""

_SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1bOH": "home",
    b"\x1bOF": "end",
    b"\x1b[1~": "home",
    b"\x1b[4~": "end",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[3~": "delete",
    b"\x1b[Z": "backtab",
}
_CONTROLS = {
    0x03: "ctrl-c",
    0x04: "ctrl-d",
    0x08: "backspace",
    0x09: "tab",
    0x0A: "enter",
    0x0C: "ctrl-l",
    0x0D: "enter",
    0x15: "ctrl-u",
    0x17: "ctrl-w",
    0x1A: "ctrl-z",
    0x20: "space",
    0x7F: "backspace",
}
_PASTE_BEGIN, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
PASTED = "paste:"
_LONGEST = 32


def read_keys(data: bytes, *, is_all: bool = False) -> tuple[list[str], bytes]:
    """The keys in `data`, and what may be the beginning of one more. `is_all`: nothing follows, so an escape is the key.

    Pasted text is one key, `paste:` and the text: nothing in it is ever taken for a command.
    """
    keys: list[str] = []
    while data:
        key, size = _first(data, is_all=is_all)
        if size == 0:
            break
        if key:
            keys.append(key)
        data = data[size:]
    return keys, data


def _first(data: bytes, *, is_all: bool) -> tuple[str, int]:
    """A key and the bytes that it takes; 0 if more are needed. An empty key is to be passed over."""
    if data.startswith(_PASTE_BEGIN):
        end = data.find(_PASTE_END)
        if end < 0:
            return ("", 0) if not is_all else ("", len(data))
        text = data[len(_PASTE_BEGIN) : end].decode("utf-8", "replace")
        return PASTED + text, end + len(_PASTE_END)
    if data[0] == 0x1B:
        return _escape(data, is_all=is_all)
    if data[0] in _CONTROLS:
        return _CONTROLS[data[0]], 1
    if data[0] < 0x20:
        return "", 1
    return _character(data, is_all=is_all)


def _escape(data: bytes, *, is_all: bool) -> tuple[str, int]:
    if len(data) == 1:
        return ("esc", 1) if is_all else ("", 0)
    if data[1] not in b"[O":
        return "esc", 1
    for size in range(3, min(len(data), _LONGEST) + 1):
        if 0x40 <= data[size - 1] <= 0x7E:
            return _SEQUENCES.get(data[:size], ""), size
    if len(data) >= _LONGEST:
        return "", len(data)
    return ("esc", 1) if is_all else ("", 0)


def _character(data: bytes, *, is_all: bool) -> tuple[str, int]:
    size = 1 if data[0] < 0x80 else 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
    if len(data) < size and not is_all:
        return "", 0
    text = data[:size].decode("utf-8", "replace")
    return text[:1], size
