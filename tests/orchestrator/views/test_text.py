"""What reaches a terminal: harmless, on one line, and cut by what it takes on screen."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from orchestrator.views.text import (
    cut,
    escaped_json,
    fit,
    fit_right,
    graphemes,
    one_line,
    safe_lines,
    sanitize_terminal,
)

FAMILY = "👨\u200d👩\u200d👧"
HARMFUL = [chr(n) for n in [*range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029]]
HARMFUL += [chr(n) for n in [*range(0x202A, 0x202F), *range(0x2066, 0x2070), 0xD800, 0xDFFF]]


def is_harmless(text: str) -> bool:
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return not any(
        unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(char) in bidi
        for char in text
    )


@pytest.mark.parametrize("char", HARMFUL, ids=lambda char: f"U+{ord(char):04X}")
def test_a_character_that_moves_or_turns_is_shown_as_a_dot(char: str) -> None:
    assert sanitize_terminal(f"a{char}b") == "a·b"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b]0;title\x07", "·]0;title·"),
        ("\x1b[2J\x1b[31mred", "·[2J·[31mred"),
        ("[red]x[/]", "[red]x[/]"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("invoice\u202egnp.exe", "invoice·gnp.exe"),
        ("\x9b31m", "·31m"),
        ("über 🦊 עברית " + FAMILY, "über 🦊 עברית " + FAMILY),
    ],
)
def test_hostile_text_is_shown_literally(hostile: str, shown: str) -> None:
    assert sanitize_terminal(hostile) == shown


@given(st.text())
def test_whatever_comes_in_nothing_harmful_comes_out(text: str) -> None:
    assert is_harmless(sanitize_terminal(text))
    assert is_harmless(one_line(text))
    assert all(is_harmless(line) for line in safe_lines(text))


@given(st.text())
def test_escaped_json_says_the_same_and_is_harmless(text: str) -> None:
    written = escaped_json(json.dumps({"name": text}, ensure_ascii=False))

    assert is_harmless(written)
    assert json.loads(written) == {"name": text}


def test_one_line_joins_lines_and_bounds_what_it_reads() -> None:
    assert one_line("  first\n\tsecond\r\n") == "first second"
    assert len(one_line("x" * 1_000_000)) == 2_000


def test_lines_end_at_line_feeds_only() -> None:
    assert safe_lines("a\r\nb\x0bc\u2028d\te") == ["a", "b·c·d   e"]


WHOLE = ["é", "e\u0301", FAMILY, "👍🏽", "🇩🇪", "❤\ufe0f", "한", "\u1112\u1161\u11ab", "नि", "a", "界"]


@pytest.mark.parametrize("cluster", WHOLE)
def test_a_grapheme_is_one_piece(cluster: str) -> None:
    assert list(graphemes(f"x{cluster}y")) == ["x", cluster, "y"]


def test_flags_come_in_pairs() -> None:
    assert list(graphemes("🇩🇪🇫🇷🇩")) == ["🇩🇪", "🇫🇷", "🇩"]


@given(st.lists(st.sampled_from(WHOLE), max_size=12), st.integers(0, 20))
def test_a_cut_fits_and_never_parts_a_grapheme(clusters: list[str], width: int) -> None:
    text = "".join(clusters)
    shown = cut(text, width)

    assert cell_len(shown) <= width
    if cell_len(text) <= width:
        assert shown == text
    elif width:
        kept = shown.removesuffix("…")
        assert shown.endswith("…")
        assert list(graphemes(kept)) == list(graphemes(text))[: len(list(graphemes(kept)))]


@given(st.text(), st.integers(0, 30), st.sampled_from(["…", "..."]))
def test_fitted_text_has_exactly_the_width(text: str, width: int, mark: str) -> None:
    safe = sanitize_terminal(text)

    assert cell_len(fit(safe, width, mark)) == width
    assert cell_len(fit_right(safe, width, mark)) == width


def test_a_wide_character_is_not_halved() -> None:
    assert fit("界界界", 4) == "界… "
    assert fit_right("界界界", 4) == " 界…"


def test_a_pile_of_accents_does_not_cost_the_reader_a_megabyte() -> None:
    assert len(cut("e" + "\u0301" * 1_000_000, 10)) < 1_000
