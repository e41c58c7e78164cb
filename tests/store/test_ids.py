"""Ids: UUIDv7 bit by bit, in the order of their time, and nothing that could leave the folder."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import BadId
from store.ids import checked_session_id, entry_id, session_id, short

times = st.integers(0, 2**48 - 1)
chances = st.integers(0, 2**74 - 1)


@given(times, chances)
def test_a_session_id_is_a_uuid_of_version_7(unix_ms: int, chance: int) -> None:
    value = uuid.UUID(session_id(unix_ms, chance))
    bits = value.int

    assert (value.version, value.variant) == (7, uuid.RFC_4122)
    assert bits >> 80 == unix_ms
    assert ((bits >> 64) & 0xFFF) << 62 | bits & (2**62 - 1) == chance


@given(times, times, chances, chances)
def test_ids_sort_as_their_times_do(one: int, two: int, chance: int, other: int) -> None:
    if one != two:
        assert (session_id(one, chance) < session_id(two, other)) == (one < two)
    elif chance != other:
        assert session_id(one, chance) != session_id(two, other)


@given(times, st.integers(0, 2**200))
def test_more_random_bits_than_fit_are_cut_off(unix_ms: int, chance: int) -> None:
    assert session_id(unix_ms, chance) == session_id(unix_ms, chance & (2**74 - 1))


@given(st.integers(-(2**60), 2**60), chances)
def test_a_clock_that_is_wrong_still_gives_a_valid_id(unix_ms: int, chance: int) -> None:
    assert checked_session_id(session_id(unix_ms, chance))


@pytest.mark.parametrize("good", ["01a229aa-ae08-749e-9d5a-497ae246d2e7", "abcdefgh", "0-------", "a" * 64])
def test_an_id_of_the_allow_list_passes_unchanged(good: str) -> None:
    assert checked_session_id(good) == good


HOSTILE = [
    "",
    "a" * 7,
    "a" * 65,
    "-abcdefgh",
    "ABCDEFGH",
    "../../etc",
    "..------",
    "a/bcdefgh",
    "a\\bcdefgh",
    "abcdefgh\n",
    "\nabcdefgh",
    "abcdefgh\0",
    "abcd\0efgh",
    "abcdefgh.jsonl",
    "abc defgh",
    "~abcdefgh",
    "$HOME----",
    "%2e%2e%2f",
    "\u0430bcdefgh",  # Cyrillic a
    "１2345678",
    "²2345678",
    "abcdefgh\u2028",
    "abcdefg\u0301h",
    "\ud800bcdefgh",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_id_is_refused(hostile: str) -> None:
    with pytest.raises(BadId) as caught:
        checked_session_id(hostile)
    assert str(caught.value).isprintable()


@given(st.text())
def test_what_passes_is_a_plain_file_name(text: str) -> None:
    try:
        passed = checked_session_id(text)
    except BadId:
        return
    assert set(passed) <= set("0123456789abcdefghijklmnopqrstuvwxyz-")
    assert 8 <= len(passed) <= 64
    assert not passed.startswith("-")


def test_the_text_of_a_refusal_is_short() -> None:
    with pytest.raises(BadId) as caught:
        checked_session_id("A" * 10_000_000)
    assert len(str(caught.value)) < 200


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_entry_ids_are_8_hex_digits_in_the_order_of_their_numbers(one: int, two: int) -> None:
    assert len(entry_id(one)) == 8
    assert int(entry_id(one), 16) == one
    assert (entry_id(one) < entry_id(two)) == (one < two)


def test_people_see_the_last_8_characters() -> None:
    assert short("01a229aa-ae08-749e-9d5a-497ae246d2e7") == "e246d2e7"
    assert short("abc") == "abc"
