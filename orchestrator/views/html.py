"""A session, and what is below it, as one page for people: no script, nothing loaded, and every foreign text escaped."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from orchestrator.views.doing import first_argument
from orchestrator.views.money import exact_money, tokens
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.signs import title
from orchestrator.views.stored import Stored, subtree
from orchestrator.views.text import one_line, safe_lines
from store.entries import BranchSummaryEntry, ChildSettledEntry, ChildSpawnedEntry, CompactionEntry, CustomMessageEntry
from store.ids import short
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from store.records import Record, message_in
from store.repair import Node
from store.tree import EntryTree

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0;font:inherit}
code,details pre,.out{font-family:ui-monospace,monospace;font-size:.875em}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #8885}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
section.said{border-left:3px solid #888;padding-left:.8rem;margin:1rem 0}
section.user{border-color:#36c}section.assistant{border-color:#393}.bad{color:#c33}
h3{font-size:.85rem;margin:0;opacity:.75;font-weight:600}
details{margin:.4rem 0}summary{cursor:pointer;overflow-wrap:anywhere}img{max-width:100%}
article>details>summary{font-size:1.2rem}
"""


def html_page(stored: Stored, session_id: str, now: float) -> Iterator[str]:
    """The page in pieces. `session_id` is in the tree; what is below it follows in sections of its own."""
    rows = subtree(tree_rows(stored, now), session_id)
    head = title(rows[0]) if rows else short(session_id)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">'
        '<meta name="referrer" content="no-referrer"><meta name="viewport" content="width=device-width">'
        f"<title>{_text(head)}</title><style>{_STYLE}</style></head>\n<body><h1>{_text(head)}</h1>\n"
    )
    yield _usage(rows)
    names = {row.session_id: title(row) for row in rows}
    for place, row in enumerate(rows):
        node = stored.nodes.get(row.session_id)
        anchor = f'<article id="s-{_text(row.session_id)}">'
        yield f"{anchor}<details{' open' if place == 0 else ''}><summary>{_text(title(row))}</summary>\n"
        yield _facts(row)
        if node is None:
            yield "<p class=bad>Its journal is missing, or nothing in it can be read.</p>"
        else:
            yield from _conversation(node, names)
        yield "</details></article>\n"
    yield "</body></html>\n"


def _usage(rows: Sequence[AgentRow]) -> str:
    head = "".join(
        f"<th{' class=n' if place > 2 else ''}>{name}</th>"
        for place, name in enumerate(("Session", "Model", "State", "Input", "Output", "Cached", "Own", "Total"))
    )
    lines = []
    for row in rows:
        own = row.own
        figures = (
            tokens(own.input if own else None),
            tokens(own.output if own else None),
            tokens(own.cache_read + own.cache_write if own else None),
            exact_money(row.own),
            exact_money(row.total),
        )
        name = f'{"&ensp;" * (row.depth - rows[0].depth)}<a href="#s-{_text(row.session_id)}">{_text(title(row))}</a>'
        cells = f"<td>{name}</td><td>{_text(row.model or '–')}</td><td>{_text(row.state.word)}</td>"
        lines.append(f"<tr>{cells}{''.join(f'<td class=n>{_text(figure)}</td>' for figure in figures)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{chr(10).join(lines)}\n</tbody></table>\n"


def _facts(row: AgentRow) -> str:
    facts = (row.session_id, row.cwd, row.created, row.model)
    return f"<p>{' · '.join(f'<code>{_text(one_line(fact))}</code>' for fact in facts if fact)}</p>\n"


def _conversation(node: Node, names: Mapping[str, str]) -> Iterator[str]:
    """The path to where the session stands, each result inside of the call that it answers."""
    tree: EntryTree = node.tree
    path = tree.path()
    messages = {record.id: message for record in path if (message := message_in(record)) is not None}
    results = _results(list(messages.values()))
    shown = {id(result) for result in results.values()}
    on_path = {record.id for record in path}
    told = [
        record for record in tree.records if record.id in on_path or record.type in {"child_spawned", "child_settled"}
    ]
    for record in told:
        message = messages.get(record.id)
        if message is None:
            yield _entry(record, names)
        elif id(message) not in shown:
            yield _message(message, results)
    others = sum(1 for record in tree.records if record.type == "message" and record.id not in on_path)
    if others:
        yield f"<p>{others} messages on other branches are not shown.</p>\n"


def _results(messages: Sequence[Message]) -> dict[tuple[int, str], ToolResultMessage]:
    """(answer, call id) → the result that came before the next answer."""
    found: dict[tuple[int, str], ToolResultMessage] = {}
    answer: AssistantMessage | None = None
    for message in messages:
        if isinstance(message, AssistantMessage):
            answer = message
        elif (
            isinstance(message, ToolResultMessage)
            and answer is not None
            and any(call.id == message.tool_call_id for call in answer.calls)
        ):
            found.setdefault((id(answer), message.tool_call_id), message)
    return found


def _entry(record: Record, names: Mapping[str, str]) -> str:
    if record.type == "message":
        return _said("unreadable", "a message that cannot be read", "")
    match record.body():
        case CustomMessageEntry() as custom:
            return _said("note", custom.custom_type, _content(custom.content))
        case CompactionEntry() as compaction:
            return _folded(f"summary of {compaction.tokens_before} tokens before", _pre(compaction.summary))
        case BranchSummaryEntry() as branch:
            return _folded("summary of another branch", _pre(branch.summary))
        case ChildSpawnedEntry() as child:
            return f"<p>began {_link(child.child_session_id, child.name, names)}</p>\n"
        case ChildSettledEntry() as child:
            name = _link(child.child_session_id, "", names)
            return _folded_html(f"{name} {_text(child.outcome)}", _pre(child.error_message or child.text))
    return ""


def _link(session: str, name: str, names: Mapping[str, str]) -> str:
    shown = _text(name or names.get(session) or short(session))
    return f'<a href="#s-{_text(session)}">{shown}</a>' if session in names else shown


def _message(message: Message, results: Mapping[tuple[int, str], ToolResultMessage]) -> str:
    match message:
        case UserMessage():
            return _said("user", "user", _content(message.content))
        case AssistantMessage():
            return _answer(message, results)
        case ToolResultMessage():
            return _folded(f"result of {message.tool_name or 'a tool'}", _content(message.content))
        case BashExecutionMessage():
            status = "" if message.exit_code in {0, None} else f" (exit status {message.exit_code})"
            return _folded(f"user ran: {one_line(message.command, 200)}{status}", _pre(message.output))
    content = getattr(message, "content", None) or getattr(message, "summary", "")
    kind = type(message).__name__.removesuffix("Message").lower()
    return _folded(kind, _pre(content if isinstance(content, str) else ""))


def _answer(message: AssistantMessage, results: Mapping[tuple[int, str], ToolResultMessage]) -> str:
    parts: list[str] = []
    for block in message.content:
        match block:
            case TextContent():
                parts.append(_pre(block.text))
            case ThinkingContent():
                parts.append(_folded("thinking", _pre(block.thinking)))
            case ToolCall():
                parts.append(_call(block, results.get((id(message), block.id))))
            case ImageContent():
                parts.append(_picture(block))
    if message.stop_reason in {"error", "aborted"}:
        parts.append(
            f"<p class=bad>{_text(message.stop_reason)}: {_text(message.error_message or 'no reason given')}</p>"
        )
    return _said("assistant", f"assistant {message.model}".rstrip(), "".join(parts))


def _call(call: ToolCall, result: ToolResultMessage | None) -> str:
    arguments = msgspec.json.format(msgspec.json.encode(call.arguments), indent=2).decode()
    inside = _pre(arguments)
    if result is None:
        inside += "<p class=bad>no result</p>"
    else:
        inside += f"<div class=out>{_content(result.content)}</div>"
    head = f"{_text(call.name)} {_text(one_line(first_argument(call.checked_arguments), 160))}"
    failed = " <span class=bad>failed</span>" if result is not None and result.is_error else ""
    return _folded_html(head + failed, inside)


def _said(kind: str, who: str, inside: str) -> str:
    return f'<section class="said {kind}"><h3>{_text(one_line(who))}</h3>{inside}</section>\n'


def _folded(head: str, inside: str) -> str:
    return _folded_html(_text(one_line(head)), inside)


def _folded_html(head: str, inside: str) -> str:
    return f"<details><summary>{head}</summary>{inside}</details>\n"


def _content(content: str | Sequence[TextContent | ImageContent]) -> str:
    if isinstance(content, str):
        return _pre(content)
    return "".join(_pre(block.text) if isinstance(block, TextContent) else _picture(block) for block in content)


def _picture(picture: ImageContent) -> str:
    if picture.mime_type not in _PICTURES or not _BASE64.fullmatch(picture.data):
        return "<p>an image that cannot be shown</p>"
    return f'<img alt="" src="data:{picture.mime_type};base64,{picture.data}">'


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>" if text.strip() else ""


def _text(text: str) -> str:
    """Foreign text for any place in the page: escaped, and without what turns or hides text."""
    return html.escape("\n".join(safe_lines(text)), quote=True)
