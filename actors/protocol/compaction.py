"""Compaction as policy: when a context is full, where it is cut, what the summariser is asked."""

from collections.abc import Iterator, Sequence

import msgspec

from store.context import build_context, for_model
from store.entries import BranchSummaryEntry, CompactionEntry, CustomMessageEntry
from store.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    text_of,
)
from store.records import Record, message_in
from store.size import CHARS_PER_TOKEN, guessed, message_chars, reserve_tokens

KEEP_TOKENS = 20_000
MAX_PASSES = 2
_RESULT_CHARS = 2_000
_SAID = frozenset({"custom_message", "branch_summary"})
_FILE_TOOLS = {"read": "readFiles", "write": "modifiedFiles", "edit": "modifiedFiles"}


class CompactionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`reserve_tokens` stay free for the answer, `keep_recent_tokens` stay as they are; None: by the model's window."""

    enabled: bool = True
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None

    def reserve(self, window: int) -> int:
        return reserve_tokens(window) if self.reserve_tokens is None else self.reserve_tokens

    def keep(self, window: int) -> int:
        return min(KEEP_TOKENS, window // 3) if self.keep_recent_tokens is None else self.keep_recent_tokens

    def is_full(self, tokens: int, window: int) -> bool:
        """Whether a context of so many tokens is to be summarised before the next request. Window 0: not known, never."""
        return self.enabled and window > 0 and tokens > window - self.reserve(window)


class Cut(msgspec.Struct, frozen=True):
    """What a compaction replaces, and the first entry that it keeps. `summarised` are messages in the three roles."""

    first_kept_entry_id: str
    tokens_before: int
    summarised: tuple[Message, ...]
    previous_summary: str | None = None
    is_split_turn: bool = False
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def choose_cut(path: Sequence[Record], keep_tokens: int, tokens_before: int) -> Cut | None:
    """Where to cut, so that about `keep_tokens` stay; None where nothing can be summarised.

    A call is never parted from its result: a cut lies before a message of a user, a custom message, or an answer. A turn that
    is longer than the budget is split at one of its answers.
    """
    start, previous = _begin(path)
    candidates = _beginnings(path, start)
    kept_chars = 0
    chosen: int | None = None
    for place in range(len(path) - 1, start, -1):
        kept_chars += _chars(path[place])
        if place in candidates and (chosen is None or guessed(kept_chars) <= keep_tokens):
            chosen = place
        if guessed(kept_chars) > keep_tokens and chosen is not None:
            break
    if chosen is None:
        return None
    # The earlier summary is handed over apart from the messages: in here it would be taken for one of them.
    between = [record for record in path[start:chosen] if record.type != "compaction"]
    between += [record for record in path[chosen:] if record.type == "context_edit"]
    summarised = for_model(build_context(between).messages)
    if not summarised:
        return None
    read, modified = _files(summarised, previous)
    return Cut(
        path[chosen].id,
        tokens_before,
        summarised,
        previous.summary if previous is not None else None,
        _is_answer(path[chosen]),
        read,
        modified,
    )


def branch_cut(left: Sequence[Record], tokens: int) -> Cut | None:
    """A branch that is left, behind what it shares with the one that is gone on with; None where nothing was said on it."""
    summarised = for_model(build_context([record for record in left if record.type != "compaction"]).messages)
    if not summarised:
        return None
    read, modified = _files(summarised, None)
    return Cut(left[0].id, tokens, summarised, read_files=read, modified_files=modified)


def _begin(path: Sequence[Record]) -> tuple[int, CompactionEntry | None]:
    """The first record that is not summarised yet, and the compaction before it."""
    for place in range(len(path) - 1, -1, -1):
        if path[place].type == "compaction" and isinstance(body := path[place].body(), CompactionEntry):
            kept = next((at for at in range(place) if path[at].id == body.first_kept_entry_id), place)
            return kept, body
    return 0, None


def _beginnings(path: Sequence[Record], start: int) -> set[int]:
    """Where behind `start` a context may begin: at an answer, or at what is said, but not among the results of an answer."""
    places: set[int] = set()
    has_results_behind = False
    for place in range(len(path) - 1, start, -1):
        record = path[place]
        message = message_in(record) if record.type == "message" else None
        if isinstance(message, ToolResultMessage):
            has_results_behind = True
            continue
        # An answer that failed is in no context, and its calls were never run.
        is_answer = isinstance(message, AssistantMessage) and message.stop_reason != "error"
        if is_answer or (not has_results_behind and (message is not None or record.type in _SAID)):
            places.add(place)
        has_results_behind = has_results_behind and not is_answer
    return places


def _is_answer(record: Record) -> bool:
    return record.type == "message" and isinstance(message_in(record), AssistantMessage)


def _chars(record: Record) -> int:
    if record.type == "custom_message" and isinstance(body := record.body(), CustomMessageEntry):
        return len(text_of(body.content))
    if record.type == "branch_summary" and isinstance(body := record.body(), BranchSummaryEntry):
        return len(body.summary)
    message = message_in(record) if record.type == "message" else None
    return 0 if message is None else message_chars(message)


def _files(messages: Sequence[Message], previous: CompactionEntry | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that were read and modified, those of the previous summary first, each once. A modified one counts as that."""
    found: dict[str, list[str]] = {"readFiles": [], "modifiedFiles": []}
    if previous is not None and isinstance(previous.details, dict):
        for kind, names in found.items():
            listed = previous.details.get(kind)
            names += [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    for call in _calls(messages):
        path = call.checked_arguments.get("path")
        if call.name in _FILE_TOOLS and isinstance(path, str):
            found[_FILE_TOOLS[call.name]].append(path)
    modified = tuple(dict.fromkeys(found["modifiedFiles"]))
    return tuple(name for name in dict.fromkeys(found["readFiles"]) if name not in modified), modified


def _calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.calls


SUMMARISER = """\
You write the memory of another agent, whose conversation has become too long. Write down what it needs to go on without
seeing the conversation: the goal in the person's own words, decisions and why, what is done, what was found out (names,
numbers, paths, exact errors), what is under way, what comes next, and any wish or limit that was stated. Leave out what no
longer matters. Write plain text under short headings, and nothing before or after it."""


def summary_windows(cut: Cut, window: int, reserve: int, shrunk: int = 1) -> list[str]:
    """The conversation as text, in pieces that each fit into a request beside the summary so far. At least one.

    `shrunk`: so many times smaller than one would guess, where the provider counts more tokens than that.
    """
    room = max(2_000, (window - 2 * reserve) * CHARS_PER_TOKEN // 2 // shrunk) if window else 400_000 // shrunk
    pieces: list[str] = []
    current = ""
    for line in (line for message in cut.summarised for line in _transcript(message)):
        for part in (line[at : at + room] for at in range(0, max(len(line), 1), room)):
            if current and len(current) + len(part) + 1 > room:
                pieces.append(current)
                current = ""
            current += part + "\n"
    return [*pieces, current] if current or not pieces else pieces


def _transcript(message: Message) -> Iterator[str]:
    """One message for the summariser. Results are cut: what mattered in them was said in the answers that followed."""
    if isinstance(message, AssistantMessage):
        if message.text.strip():
            yield f"[agent] {message.text.strip()}"
        for call in message.calls:
            yield f"[agent calls {call.name}] {msgspec.json.encode(call.checked_arguments).decode()[:_RESULT_CHARS]}"
    elif isinstance(message, ToolResultMessage):
        text = text_of(message.content)
        more = f" […{len(text) - _RESULT_CHARS} characters more]" if len(text) > _RESULT_CHARS else ""
        error = " failed" if message.is_error else ""
        yield f"[{message.tool_name}{error}] {text[:_RESULT_CHARS]}{more}"
    else:
        yield f"[person] {text_of(getattr(message, 'content', ''))}"


def summary_prompt(piece: str, so_far: str | None, instructions: str | None, *, is_split_turn: bool) -> str:
    """What the summariser is asked for one piece. `so_far` is the summary of all before it, and is carried on."""
    parts: list[str] = []
    if so_far:
        parts.append(f"The memory so far, which your text replaces; carry on what still matters:\n\n{so_far}")
    parts.append(f"The conversation{' since then' if so_far else ''}:\n\n{piece}")
    if is_split_turn:
        parts.append("It breaks off in the middle of a piece of work, which goes on after it.")
    if instructions:
        parts.append(f"Pay attention to this: {instructions}")
    parts.append("Write the memory now.")
    return "\n\n".join(parts)
