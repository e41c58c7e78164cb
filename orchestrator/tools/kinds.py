"""What a file holds, told by its first bytes."""

import mimetypes

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive (or docx, xlsx, jar, …)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh91AY&SY", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program or library"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xff\xfe", "text in UTF-16 or UTF-32; convert it with iconv"),
    (b"\xfe\xff", "text in UTF-16; convert it with iconv"),
)


def image_type(start: bytes) -> str | None:
    """The MIME type, if these are the first bytes of an image that models can look at."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def binary_kind(start: bytes, path: str) -> str | None:
    """What a file that begins so is, if it is no text."""
    for signature, kind in _SIGNATURES:
        if start.startswith(signature):
            return kind
    if b"\0" not in start:
        return None
    guessed, _encoding = mimetypes.guess_type(path)
    return guessed or "binary data"
