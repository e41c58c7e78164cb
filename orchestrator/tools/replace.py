"""Put new contents into a file, whole or not at all."""

import os
import secrets
import stat

import trio

from orchestrator.tools.paths import BadPath, check_regular, refuse_forbidden, shown_path

# Whoever reads a file, changes it and puts it back does so in a thread under this limiter: else two calls of one batch,
# or two sessions, would lose each other's change.
CHANGES = trio.CapacityLimiter(1)


def replace_file(path: str, data: bytes) -> bool:
    """Write `data` to the file that `path` leads to, through links; make its folders. Whether there was a file before.

    A new file appears under the name at once, with the mode and owner of the old one. Where that cannot be (hard links,
    a folder or owner that is not ours), the old file is written in place. Raises OSError and BadPath.
    """
    if path.endswith("/"):
        raise BadPath(f"{shown_path(path)} names a directory; expected a file")
    target = os.path.realpath(path)
    refuse_forbidden(target, path)
    try:
        before = os.stat(target, follow_symlinks=False)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _rename_into_place(target, data, None)
        return False
    check_regular(before, path)
    if not os.access(target, os.W_OK):
        raise BadPath(f"{shown_path(path)} is read-only")
    if before.st_nlink > 1:
        _write_in_place(target, data)
        return True
    try:
        _rename_into_place(target, data, before)
    except PermissionError:
        _write_in_place(target, data)
    return True


def _rename_into_place(target: str, data: bytes, before: os.stat_result | None) -> None:
    temporary = os.path.join(os.path.dirname(target), f".sapwood-{secrets.token_hex(8)}")
    # 0o666: the umask of the process decides about new files, as everywhere.
    mode = 0o666 if before is None else 0o600
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        try:
            _write_all(fd, data)
            if before is not None:
                ours = os.fstat(fd)
                if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
                    os.fchown(fd, before.st_uid, before.st_gid)
                os.fchmod(fd, stat.S_IMODE(before.st_mode))
        finally:
            os.close(fd)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _write_in_place(target: str, data: bytes) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        check_regular(os.fstat(fd), target)
        os.ftruncate(fd, 0)
        _write_all(fd, data)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
