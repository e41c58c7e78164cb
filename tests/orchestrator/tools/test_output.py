from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tools.output import HeadTail, count_lines

pieces = st.lists(st.text(st.sampled_from("aé€😀\n\n"), max_size=30), max_size=12)
bounds = st.tuples(st.integers(1, 60), st.integers(1, 12))


def filled(parts: list[str], max_bytes: int, max_lines: int) -> HeadTail:
    shown = HeadTail(max_bytes, max_lines)
    for part in parts:
        shown.add(part)
    return shown


@given(pieces, bounds)
def test_what_is_shown_is_within_the_bounds(parts: list[str], bound: tuple[int, int]) -> None:
    cut = filled(parts, *bound).cut()
    head, tail = cut.head.encode(), cut.tail.encode()
    assert len(head) + len(tail) <= bound[0]
    assert count_lines(head) + count_lines(tail) <= bound[1]


@given(pieces, bounds)
def test_the_head_is_a_prefix_the_tail_a_suffix_and_the_rest_is_counted(
    parts: list[str], bound: tuple[int, int]
) -> None:
    whole = "".join(parts)
    cut = filled(parts, *bound).cut()
    assert whole.startswith(cut.head)
    assert whole.endswith(cut.tail)
    middle = whole[len(cut.head) : len(whole) - len(cut.tail)].encode()
    assert cut.omitted_bytes == len(middle)
    assert cut.omitted_lines == count_lines(middle)


@given(pieces, bounds)
def test_what_fits_is_shown_whole(parts: list[str], bound: tuple[int, int]) -> None:
    whole = "".join(parts)
    shown = filled(parts, *bound)
    fits = len(whole.encode()) <= bound[0] and count_lines(whole.encode()) <= bound[1]
    assert shown.cut().is_whole == fits == (not shown.is_over)
    assert shown.total_lines == count_lines(whole.encode())


@given(pieces, bounds)
def test_how_it_came_in_pieces_does_not_matter(parts: list[str], bound: tuple[int, int]) -> None:
    assert filled(parts, *bound).cut() == filled(["".join(parts)], *bound).cut()


@given(pieces, st.integers(0, 70))
def test_what_came_last_is_a_suffix_of_at_most_that_many_bytes(parts: list[str], max_bytes: int) -> None:
    recent = filled(parts, 60, 12).recent(max_bytes)
    assert "".join(parts).endswith(recent)
    assert len(recent.encode()) <= max_bytes


def test_a_cut_falls_at_the_end_of_a_line_that_is_near() -> None:
    cut = filled(["0123456789\n" * 100], 100, 1000).cut()
    assert cut.head == "0123456789\n" * 4
    assert cut.tail == "0123456789\n" * 5
    assert cut.omitted_lines == 91


def test_one_line_without_end_keeps_both_of_its_ends() -> None:
    cut = filled(["<", "x" * 10_000, ">"], 100, 10).cut()
    assert cut.head == "<" + "x" * 49
    assert cut.tail == "x" * 49 + ">"
    assert (cut.omitted_bytes, cut.omitted_lines) == (9902, 1)
