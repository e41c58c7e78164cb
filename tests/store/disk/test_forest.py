"""A journal as a reader sees it is the same in one pass as by the rules of recovery, whatever the file holds."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.disk.forest import node_of, read_node, read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.entries import FRAMING, VERSION, Header, ModelChangeEntry
from store.frame import COMMITS, PART, seal, seed
from store.ids import entry_id
from store.records import Draft
from store.recovery import examine
from store.repair import Node
from store.wire import encode

SESSION = "0198f0aa-0000-7000-8000-000000000001"
HEADER = encode(Header(version=VERSION, id=SESSION, timestamp="2026-01-01T00:00:00Z", cwd="/w", framing=FRAMING))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    root = tmp_path_factory.mktemp("home")
    found = Home(root, root / "sessions", RealFs())
    found.create()
    return found


def lines(flags: str, durable: int, lower: int = 0) -> list[bytes]:
    """A header and a record for each flag; record number `lower` is of an older epoch than those before it."""
    drafts = [Draft.of(ModelChangeEntry(provider="p", model_id=f"m{number}")) for number in range(len(flags))]
    bodies = [each.record(entry_id(place), None, "").raw for place, each in enumerate(drafts, start=1)]
    frames = [COMMITS, *(COMMITS if flag == "c" else PART for flag in flags)]
    return [
        seal(body, seq, min(seq, durable), 1 if seq == lower else 2, flag, seed(SESSION))
        for seq, (body, flag) in enumerate(zip([HEADER, *bodies], frames, strict=True))
    ]


def write(home: Home, data: bytes) -> Path:
    path = home.journal_path(SESSION)
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def as_told(node: Node | None) -> object:
    return None if node is None else (node.header, node.records, node.tree.leaf_id)


def is_read_as_examined(home: Home, data: bytes) -> None:
    write(home, data)
    recovery = examine(data, SESSION)

    node, trouble = read_node(home.fs, home, SESSION)

    assert (as_told(node), trouble) == (as_told(node_of(recovery)), recovery.trouble)


spoilers: list[Callable[[list[bytes], int], bytes]] = [
    lambda found, place: b"".join(found),
    lambda found, place: b"".join(found)[: place % (len(b"".join(found)) + 1)],
    lambda found, place: b"".join(found[: place % len(found)] + found[place % len(found) + 1 :]),
    lambda found, place: b"".join([*found, found[place % len(found)]]),
    lambda found, place: b"".join(found) + b"\0" * (place % 50),
    lambda found, place: b"".join(found) + b'{"type":"message","id":"x"}\n',
    lambda found, place: flipped(b"".join(found), place),
]


def flipped(data: bytes, place: int) -> bytes:
    changed = bytearray(data)
    changed[place % len(data)] ^= 1 << place % 8
    return bytes(changed)


@settings(deadline=None, max_examples=300)
@given(
    st.text("ccp", max_size=5), st.integers(0, 6), st.integers(0, 9), st.sampled_from(spoilers), st.integers(0, 10_000)
)
def test_one_pass_finds_what_the_rules_of_recovery_find(
    home: Home, flags: str, durable: int, lower: int, spoil: Callable[[list[bytes], int], bytes], place: int
) -> None:
    is_read_as_examined(home, spoil(lines(flags, durable, lower), place))


def test_what_is_no_journal_has_no_node_and_is_told(home: Home) -> None:
    for data in (b"", b"\n", b"{}\n", b"nothing of ours"):
        is_read_as_examined(home, data)

    tree = read_tree(home.fs, home, SESSION)

    assert tree.nodes == {}
    assert "expected a journal of session" in tree.troubles[SESSION]
