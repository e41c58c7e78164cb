"""Bytes of a terminal as keys, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.views.screen.keyboard import read_keys

WHOLE = {
    b"j": ["j"],
    b"\x1b[A": ["up"],
    b"\x1bOB": ["down"],
    b"\x1b[5~": ["pageup"],
    b"\x1b[1;5C": [],
    b"\r\n": ["enter", "enter"],
    b" ": ["space"],
    b"\x7f\x08": ["backspace", "backspace"],
    b"\x03\x1a": ["ctrl-c", "ctrl-z"],
    "é界👍".encode(): ["é", "界", "👍"],
    b"\x1bq": ["esc", "q"],
    b"\x1b[200~q\nX\x1b[201~j": ["paste:q\nX", "j"],
    b"\x01": [],
}


@pytest.mark.parametrize("data", WHOLE)
def test_each_sequence_is_its_key(data: bytes) -> None:
    assert read_keys(data) == (WHOLE[data], b"")


@pytest.mark.parametrize("data", [data for data in WHOLE if not data.startswith(b"\x1bq")])
def test_a_sequence_may_come_in_pieces(data: bytes) -> None:
    found, rest = [], b""
    for place in range(len(data)):
        keys, rest = read_keys(rest + data[place : place + 1])
        found += keys
    assert (found, rest) == (WHOLE[data], b"")


@pytest.mark.parametrize(("data", "keys"), [(b"\x1b", ["esc"]), (b"\x1b[", ["esc", "["]), (b"\xe7\x95", ["\ufffd"])])
def test_what_is_not_followed_is_taken_as_it_is(data: bytes, keys: list[str]) -> None:
    assert read_keys(data)[0] == []
    assert read_keys(data, is_all=True)[0] == keys


@given(st.binary(max_size=60))
def test_no_bytes_are_kept_for_ever_and_no_key_is_a_control_character(data: bytes) -> None:
    keys, rest = read_keys(data, is_all=True)
    assert rest == b""
    assert all(key >= " " for key in keys)
