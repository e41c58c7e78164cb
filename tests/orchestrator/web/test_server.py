"""The dashboard as a server: who is answered, what the stream tells, and how it ends."""

import msgspec
import pytest
import trio

from orchestrator.views.rows import AgentRow
from orchestrator.web.door import HEADERS, Door
from orchestrator.web.ports import HostEnded, Missed, Wrote
from tests.orchestrator.web.client import get, headers, post, stream
from tests.orchestrator.web.stage import many_rows, row, sample_rows, settled, stage, summed, until, usage

ROWS = summed([row("root-000", name="top"), row("child-00", row("root-000"))])


async def test_what_is_wrong_at_the_door_gets_403_everywhere_and_every_answer_has_the_headers() -> None:
    async with stage(ROWS) as up:
        door = up.server.door
        wrong = {"host": "evil.example", "origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        for name, value in wrong.items():
            for path in ("/", "/api/stream", "/api/detail/info?session=root-000"):
                assert (await get(door, path, **{name: value})).status_code == 403
        assert (await get(door, "/api/stream", cookie=None)).status_code == 403
        assert (await post(door, "/api/do", {}, cookie=None)).status_code == 403
        assert (await post(door, "/api/do", {}, content_type="text/plain")).status_code == 403
        page = await get(door, "/", cookie=None)
        missing = await get(door, "/nothing")

        assert page.status_code == 200
        assert missing.status_code == 404
        for answer in (page, missing, await get(door, "/api/stream", cookie=None)):
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
            assert "server" not in answer.headers


async def test_two_hosts_in_one_request_are_refused() -> None:
    async with stage(ROWS) as up:
        door = up.server.door
        lines = [f"host: 127.0.0.1:{door.port}", "host: evil.example", "connection: close"]
        connection = await trio.open_tcp_stream("127.0.0.1", door.port)
        async with connection:
            await connection.send_all("\r\n".join(["GET / HTTP/1.1", *lines, "", ""]).encode())
            said = b"".join([data async for data in connection])

    assert said.split(b" ")[1] in {b"400", b"403"}


async def test_nobody_gets_in_by_a_websocket() -> None:
    async with stage(ROWS) as up:
        door = up.server.door
        upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        given = headers(door) | upgrade | {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
        lines = [f"{name}: {value}" for name, value in given.items()]
        async with await trio.open_tcp_stream("127.0.0.1", door.port) as connection:
            await connection.send_all("\r\n".join(["GET /api/stream HTTP/1.1", *lines, "", ""]).encode())
            said = await connection.receive_some()

    assert said.startswith(b"HTTP/1.1 403 ")


async def test_the_token_buys_the_cookie_and_nothing_else_does() -> None:
    async with stage(ROWS) as up:
        door = up.server.door
        wrong = await post(door, "/api/enter", {"token": Door(1).token}, cookie=None)
        right = await post(door, "/api/enter", {"token": door.token}, cookie=None)

        assert (wrong.status_code, "set-cookie" in wrong.headers) == (403, False)
        assert right.status_code == 204
        assert right.headers["set-cookie"] == door.cookie
        pair = right.headers["set-cookie"].partition(";")[0]
        assert (await get(door, "/api/detail/none", cookie=pair)).status_code == 400


async def test_a_page_gets_hello_and_all_rows_in_chunks_parents_first() -> None:
    async with stage(many_rows(2_500)) as up, stream(up.server.door) as told:
        hello = await told.frame()
        chunks = [await told.frame() for _ in range(3)]

        assert hello.event == "hello"
        assert hello.data["rows"] == 2_500
        assert len(hello.data["states"]) == 15
        assert [(chunk.event, len(chunk.data["rows"])) for chunk in chunks] == [
            ("rows", 1_000),
            ("rows", 1_000),
            ("rows", 500),
        ]
        assert [bool(frame.id) for frame in (hello, *chunks)] == [False, False, False, True]
        seen: set[str] = set()
        for chunk in chunks:
            for key, shown in chunk.data["rows"].items():
                assert shown["parent"] is None or shown["parent"] in seen
                seen.add(key)


async def test_a_patch_has_the_changed_members_only_and_the_last_value() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        await told.until("rows")
        for turns in (3, 4, 5):
            up.forest.change("child-00", turns=turns)
        patches = [await told.until("patch")]
        while patches[-1].data["rows"]["child-00"] != {"turns": 5}:
            patches.append(await told.until("patch"))

        assert all(set(patch.data) == {"rows"} and set(patch.data["rows"]) == {"child-00"} for patch in patches)


async def test_nothing_is_told_when_nothing_changed() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        await told.until("rows")
        up.forest.show([msgspec.structs.replace(each) for each in up.forest.shown])  # other objects, same values
        up.forest.line("root-000", "after it")

        assert (await told.frame()).event == "feed"


async def test_rows_that_go_are_named() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        await told.until("rows")
        up.forest.show(summed([ROWS[0]]))

        patch = await told.until("patch")
        assert patch.data["gone"] == ["child-00"]


async def test_who_comes_back_gets_what_was_missed_once_and_no_more() -> None:
    async with stage(ROWS) as up:
        async with stream(up.server.door) as told:
            await told.until("rows")
            up.forest.line("root-000", "one")
            seen = await told.until("feed")
        up.forest.change("child-00", turns=9)
        up.forest.line("root-000", "two")
        up.forest.line("root-000", "three")
        board = up.server.dashboard.board
        await until(lambda: board.n == 3 and board.rows["child-00"].turns == 9)
        async with stream(up.server.door, since=seen.id) as told:
            hello, rows, feed = [await told.frame() for _ in range(3)]

    assert hello.data["resumed"] is True
    assert rows.data["rows"]["child-00"]["turns"] == 9
    assert [line["line"]["text"] for line in feed.data["lines"]] == ["two", "three"]


async def test_what_is_not_kept_any_more_is_a_gap_with_its_count() -> None:
    async with stage(ROWS) as up:
        async with stream(up.server.door) as told:
            await told.until("rows")
            up.forest.line("root-000", "seen")
            seen = await told.until("feed")
        for number in range(5_042):
            up.forest.line("root-000", f"{number}")
        await until(lambda: up.server.dashboard.board.n == 5_043)
        async with stream(up.server.door, since=seen.id) as told:
            gap = await told.until("gap")
            lines = [await told.until("feed") for _ in range(5)]

    assert gap.data == {"missed": 42, "why": "disconnected"}
    assert [line["n"] for chunk in lines for line in chunk.data["lines"]] == list(range(44, 5_044))


@pytest.mark.parametrize("since", ["", "x", ":", "other:5", "other:-1", "other:9" * 100])
async def test_a_place_in_another_life_of_the_dashboard_gives_all_rows(since: str) -> None:
    async with stage(ROWS) as up, stream(up.server.door, since=since) as told:
        hello, rows = await told.frame(), await told.frame()

        assert hello.data["resumed"] is False
        assert set(rows.data["rows"]) == {"root-000", "child-00"}


async def test_text_comes_for_the_open_conversation_only() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        reader = (await told.frame()).data["reader"]
        look = {"reader": reader, "openSession": "child-00", "isHidden": False}
        assert (await post(up.server.door, "/api/look", look)).status_code == 200
        up.forest.tell(Wrote("root-000", 1, "not this"), Wrote("child-00", 4, "Hel"), Wrote("child-00", 4, "lo"))

        patch = await told.until("patch")
        assert patch.data["written"] == {"session": "child-00", "messageId": 4, "at": 0, "text": "Hello"}
        up.forest.tell(Wrote("child-00", 4, " you"))
        assert (await told.until("patch")).data["written"]["text"] == " you"


async def test_what_a_host_dropped_and_that_it_ended_are_lines_of_the_feed() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        await told.until("rows")
        up.forest.tell(Missed(7), HostEnded(5210, 1_800_000_000.0, ("root-000",)))

        lines = (await told.until("feed")).data["lines"]
        assert lines[0]["missed"] == 7
        assert lines[1]["ended"] == {"pid": 5210, "at": 1_800_000_000.0, "rootIds": ["root-000"]}


async def test_at_most_sixty_frames_a_second_and_one_for_a_hidden_page() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        reader = (await told.frame()).data["reader"]
        await post(up.server.door, "/api/look", {"reader": reader, "openSession": None, "isHidden": True})
        up.forest.line("root-000", "first")
        await told.until("feed")
        begin = trio.current_time()
        for number in range(200):
            up.forest.line("root-000", f"{number}")
            await trio.lowlevel.checkpoint()
        frames, lines = 0, 0
        while lines < 200:
            lines += len((await told.until("feed")).data["lines"])
            frames += 1

        assert frames <= (trio.current_time() - begin) * 1 + 2


async def test_actions_go_to_the_hands_and_a_refusal_comes_back_with_its_text() -> None:
    async with stage(ROWS) as up:
        door, order = up.server.door, {"verb": "steer", "sessionId": "child-00", "text": "Use v3"}
        assert (await post(door, "/api/do", order)).status_code == 200
        up.hands.refusal = "the session has ended"
        refused = await post(door, "/api/do", order)

        assert (refused.status_code, refused.json()) == (409, {"error": "the session has ended"})
        assert [(each.verb, each.session_id, each.text) for each in up.hands.orders] == [
            ("steer", "child-00", "Use v3")
        ] * 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"verb":"explode","sessionId":"a"}',
        b'{"verb":"stop"}',
        b'{"verb":"stop","sessionId":"a","x":1}',
        b"[" * 5000,
    ],
)
async def test_a_body_that_is_no_action_is_a_400(body: bytes) -> None:
    async with stage(ROWS) as up:
        assert (await post(up.server.door, "/api/do", body)).status_code == 400
        assert up.hands.orders == []


async def test_a_body_without_end_is_refused() -> None:
    async with stage(ROWS) as up:
        door = up.server.door
        lines = [f"{name}: {value}" for name, value in headers(door).items()]
        head = "\r\n".join(["POST /api/do HTTP/1.1", *lines, "content-length: 999999999", "", ""])
        async with await trio.open_tcp_stream("127.0.0.1", door.port) as connection:
            await connection.send_all(head.encode() + b" " * (1024 * 1024 + 1))
            said = await connection.receive_some()

    assert said.startswith(b"HTTP/1.1 400 ")


async def test_a_read_only_dashboard_has_no_actions() -> None:
    async with stage(ROWS, is_read_only=True) as up, stream(up.server.door) as told:
        assert (await told.frame()).data["readOnly"] is True
        answer = await post(up.server.door, "/api/do", {"verb": "abort", "sessionId": "root-000"})

        assert answer.status_code == 409
        assert up.hands.orders == []


async def test_ended_trees_come_when_they_are_asked_for() -> None:
    old = settled("old-0000")
    async with stage(ROWS, others=(old,)) as up, stream(up.server.door) as told:
        hello = await told.frame()
        left = hello.data["leftOut"] or (await told.until("patch")).data["leftOut"]
        await post(up.server.door, "/api/ended", {})
        patch = await told.until("patch")

        assert left == 1
        assert set(patch.data["rows"]) == {"old-0000"}
        assert patch.data["leftOut"] == 0


async def test_the_streams_end_with_bye_when_the_dashboard_closes() -> None:
    async with stage(ROWS) as up, stream(up.server.door) as told:
        await told.until("rows")
        with trio.fail_after(5):
            up.stop.set()
            assert (await told.until("bye")).data == {"reason": "the dashboard was closed"}
            with pytest.raises(EOFError):
                await told.frame()


async def test_a_page_that_goes_leaves_nothing_behind() -> None:
    async with stage(ROWS) as up:
        readers = up.server.dashboard.readers
        async with stream(up.server.door) as told:
            await told.until("rows")
            assert len(readers) == 1
        await until(lambda: not readers)


def test_rows_carry_no_figure_that_is_not_known() -> None:
    from orchestrator.web.shown import shown

    free: AgentRow = row("a-000000", own=usage(0))
    unknown = row("b-000000", own=usage(0, 5_000, ("local/qwen",)))
    nothing = row("c-000000", own=None)

    assert (shown(free).own_usd, shown(free).own_is_part) == (0.0, False)
    assert (shown(unknown).own_usd, shown(unknown).own_is_part) == (0.0, True)
    assert (shown(nothing).own_usd, shown(nothing).own_is_part) == (None, False)


def test_the_sample_has_something_of_everything() -> None:
    assert {each.state.word for each in sample_rows()} >= {"waiting", "running", "failed", "needs input", "completed"}
    assert headers(Door(1))["x-sapwood"] == "1"
