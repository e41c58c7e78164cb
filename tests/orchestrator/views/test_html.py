"""The page of a session: complete, without script, and nothing that was said can act in it."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from orchestrator.views.html import POLICY, html_page
from orchestrator.views.money import exact_money
from orchestrator.views.rows import tree_rows
from store.entries import CompactionEntry, CustomMessageEntry, SessionInfoEntry
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from tests.stored import Forest, StoredSession, read, sample

HOSTILE = [
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "</pre></details></style><style>*{background:url(//evil)}</style>",
    "\x00\x1b]0;x\x07\u202edetrevni\u2066",
]


class Tags(HTMLParser):
    """Every tag and attribute of a page, and whether all that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(forest: Forest, root: StoredSession, session: str | None = None) -> str:
    return "".join(html_page(read(forest, root), session or root.id, forest.now))


@pytest.fixture
def forest(tmp_path: Path) -> Forest:
    return Forest.at(tmp_path / "home")


def test_the_page_holds_the_tree_with_its_sums(forest: Forest) -> None:
    root = sample(forest)

    text = page(forest, root)

    tags = Tags(text)
    assert tags.open == []
    anchors = {attributes.get("id") for tag, attributes in tags.found if tag == "article"}
    assert anchors == {f"s-{session}" for session in forest.sessions}
    links = {attributes.get("href") for tag, attributes in tags.found if tag == "a"}
    assert links == {f"#{anchor}" for anchor in anchors}
    assert all(exact_money(row.total) in text for row in tree_rows(read(forest, root), forest.now))
    assert text.count("<tr>") == 5


def test_a_child_alone_is_the_page_of_what_is_below_it(forest: Forest) -> None:
    root = sample(forest)
    child = next(each for each in forest.sessions.values() if each.header.name == "invoices")

    text = page(forest, root, child.id)

    assert "Ported, 14 call sites." in text
    assert "Half even." in text
    assert "I start two agents." not in text


def test_a_result_stands_inside_of_its_call(forest: Forest) -> None:
    root = forest.root()
    root.prompt("look")
    root.answer("I look.", calls=(ToolCall(id="c1", name="bash", arguments={"command": "ls -la"}),))
    root.result("c1", "total 0")
    root.answer("Again.", calls=(ToolCall(id="c1", name="bash", arguments=None),))

    text = page(forest, root)

    call = text.index("<summary>bash ls -la</summary>")
    assert call < text.index("total 0") < text.index("Again.")
    assert text.count("total 0") == 1
    assert "The tool was interrupted" in text[text.index("Again.") :]


def every_place(session: StoredSession, text: str) -> None:
    """The text in every place that others can fill."""
    session.add(SessionInfoEntry(name=text))
    session.message(UserMessage(content=text))
    session.message(UserMessage(content=(TextContent(text=text), ImageContent(data=text, mime_type=text))))
    session.message(UserMessage(content=(ImageContent(data=text, mime_type="image/png"),)))
    session.message(
        AssistantMessage(
            content=(
                TextContent(text=text),
                ThinkingContent(thinking=text),
                ToolCall(id=text, name=text, arguments={text: text}),
            ),
            provider=text,
            model=text,
            stop_reason="aborted",
            error_message=text,
        )
    )
    session.message(
        ToolResultMessage(tool_call_id=text, tool_name=text, content=(TextContent(text=text),), is_error=True)
    )
    session.message(ToolResultMessage(tool_call_id="no call", tool_name=text, content=(TextContent(text=text),)))
    session.message(BashExecutionMessage(command=text, output=text, exit_code=1))
    session.add(CustomMessageEntry(custom_type=text, content=text, display=True))
    session.add(CompactionEntry(summary=text, first_kept_entry_id=text, tokens_before=1))
    session.announce(text, text, text)
    session.message({"role": text, "content": text})


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_said_can_act(text: str, forest: Forest) -> None:
    root = forest.root(text, cwd=text)
    every_place(root, text)

    found = page(forest, root)

    tags = Tags(found)
    assert tags.open == []
    names = {tag for tag, _ in tags.found}
    assert names.isdisjoint({"script", "svg", "iframe", "object", "link", "base", "form"})
    assert names & {"style"} == {"style"}
    assert sum(tag == "style" for tag, _ in tags.found) == 1
    for tag, attributes in tags.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert tag not in {"img"} or str(attributes["src"]).startswith("data:image/")
        assert tag != "a" or str(attributes["href"]).startswith("#s-")
    assert not any(char in found for char in "\x00\x1b\x07\u202e\u2066")


def test_a_page_loads_nothing_and_says_so(forest: Forest) -> None:
    tags = Tags(page(forest, sample(forest)))

    policies = [attributes["content"] for tag, attributes in tags.found if "http-equiv" in attributes and tag == "meta"]
    assert policies == [POLICY]
    assert "script" not in POLICY
    assert POLICY.startswith("default-src 'none'")


def test_pictures_are_shown_from_the_page_itself(forest: Forest) -> None:
    root = forest.root()
    root.message(UserMessage(content=(ImageContent(data="iVBORw0KGgo=", mime_type="image/png"),)))
    root.message(UserMessage(content=(ImageContent(data="PHN2Zz4=", mime_type="image/svg+xml"),)))

    text = page(forest, root)

    assert text.count("<img ") == 1
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in text


def test_a_child_without_a_journal_has_its_place(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    gone = root.announce("gone")

    text = page(forest, root)

    assert f'<article id="s-{gone}">' in text
    assert "Its journal is missing" in text
