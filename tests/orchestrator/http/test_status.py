"""How a run over HTTP ends: the status, the stream, what stands on stdout and on stderr."""

from tests.orchestrator.engine.rig import sums_of_stream
from tests.orchestrator.http.chat_server import Answer, Refused, Said, by_agent, chat_server, in_turn
from tests.orchestrator.http.command import Desk, Done, each
from tests.orchestrator.http.told import answers_of, retries

BUSY = Refused(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, {"retry-after": "0"})
BROKEN = Refused(500, {"error": {"message": "our fault", "type": "server_error"}})


async def both_modes(desk: Desk, *answers: Answer) -> tuple[Done, Done, int]:
    """The run in json and in text mode, and how often the server was asked in one of them."""
    async with chat_server(in_turn(*answers)) as server:
        desk.use(server.url)
        as_json = await desk.run("--mode", "json", "hello")
        asked = len(server.asked)
    async with chat_server(in_turn(*answers)) as server:
        desk.use(server.url)
        as_text = await desk.run("hello")
    assert as_json.faults == []
    assert as_text.status == as_json.status
    return as_json, as_text, asked


async def test_a_reply_that_ends_well_is_status_0_and_in_text_mode_the_answer_alone(desk: Desk) -> None:
    as_json, as_text, asked = await both_modes(desk, Said("Grüße 🌲\nzwei", thinking="hm"))

    assert (as_json.status, as_json.stderr, asked) == (0, "", 1)
    assert (as_text.stdout.decode(), as_text.stderr) == ("Grüße 🌲\nzwei\n", "")
    assert retries(as_json) == [("message_end", "stop"), ("agent_end", False), ("agent_settled", "completed")]


FINAL: dict[str, tuple[Refused, str]] = {
    "400": (
        Refused(400, {"error": {"message": "no such parameter", "type": "invalid_request_error"}}),
        "no such parameter",
    ),
    "401": (Refused(401, {"error": {"message": "wrong key", "code": "invalid_api_key"}}), "wrong key"),
    "404, a page": (Refused(404, "<html>nothing here</html>", {"content-type": "text/html"}), "nothing here"),
    "429, quota": (
        Refused(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
        "exceeded your current quota",
    ),
    "429 for an hour": (
        Refused(429, {"error": {"message": "slow down"}}, {"retry-after": "3600"}),
        "retry after 3600 s",
    ),
    "a redirect": (Refused(307, "", {"location": "http://127.0.0.1:9/elsewhere"}), "expected no redirect"),
}


async def test_what_no_second_try_would_change_ends_at_once_with_status_1(desk: Desk) -> None:
    async def check(desk: Desk, case: tuple[Refused, str]) -> bool:
        as_json, as_text, asked = await both_modes(desk, case[0])
        assert (as_json.status, asked) == (1, 1)
        assert retries(as_json) == [("message_end", "error"), ("agent_end", False), ("agent_settled", "failed")]
        assert case[1] in answers_of(as_json)[0]["errorMessage"]
        assert as_text.stdout == b""
        assert as_text.stderr.startswith("sapwood: failed: ")
        return case[1] in as_text.stderr and as_text.stderr.count("\n") == 1

    assert await each(desk, FINAL, check) == dict.fromkeys(FINAL, True)


async def test_a_429_that_passes_is_retried_in_the_order_of_the_contract_and_ends_well(desk: Desk) -> None:
    as_json, as_text, asked = await both_modes(desk, BUSY, BUSY, Said("at last"))

    assert (as_json.status, asked) == (0, 3)
    assert retries(as_json) == [
        ("message_end", "error"),
        ("agent_end", True),
        ("auto_retry_start", 1),
        ("message_end", "error"),
        ("agent_end", True),
        ("auto_retry_start", 2),
        ("message_end", "stop"),
        ("auto_retry_end", True),
        ("agent_end", False),
        ("agent_settled", "completed"),
    ]
    assert [event["delayMs"] for event in as_json.of("auto_retry_start")] == [0, 0]
    assert (as_text.stdout, as_text.stderr) == (b"at last\n", "")


async def test_an_error_500_for_ever_is_tried_five_times_and_ends_with_status_1(desk: Desk) -> None:
    as_json, as_text, asked = await both_modes(desk, BROKEN)

    assert (as_json.status, asked) == (1, 5)
    assert retries(as_json) == [
        *(
            step
            for attempt in (1, 2, 3, 4)
            for step in (("message_end", "error"), ("agent_end", True), ("auto_retry_start", attempt))
        ),
        ("message_end", "error"),
        ("agent_end", False),
        ("auto_retry_end", False),
        ("agent_settled", "failed"),
    ]
    assert as_text.stdout == b""
    assert "our fault" in as_text.stderr


async def test_the_retries_of_one_prompt_are_not_counted_against_the_next_call(desk: Desk) -> None:
    answers = (
        BROKEN,
        BROKEN,
        BROKEN,
        Said(calls=[("bash", {"command": "true"})]),
        BROKEN,
        BROKEN,
        BROKEN,
        BROKEN,
        Said("done"),
    )

    as_json, _, asked = await both_modes(desk, *answers)

    assert (as_json.status, asked) == (0, len(answers))
    assert [event["attempt"] for event in as_json.of("auto_retry_start")] == [1, 2, 3, 1, 2, 3, 4]


async def test_a_stream_that_was_cut_counts_stays_out_of_context_and_is_asked_for_again(desk: Desk) -> None:
    cut = Said("a secret beginn", [("bash", {"command": "touch ran"})], (70, 7, 0, 0), ending="cut")
    async with chat_server(in_turn(cut, Said("whole", usage=(80, 8, 0, 0)))) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "hello")
        first, second = server.asked

    assert (done.status, done.faults) == (0, [])
    partial, whole = answers_of(done)
    assert (partial["stopReason"], partial["content"][0]["text"]) == ("error", "a secret beginn")
    assert "cut off" in partial["errorMessage"]
    assert whole["content"][0]["text"] == "whole"
    assert second.messages == first.messages
    assert not (desk.folder / "ran").exists()
    assert done.of("tool_execution_start") == []
    seen = sums_of_stream(done.events).own[done.root_id]
    assert (seen.input, seen.output) == (150, 15)
    [kept] = desk.stored(done.root_id).nodes.values()
    assert sum(b"a secret beginn" in record.raw for record in kept.records) == 1


async def test_a_stream_that_always_breaks_ends_with_status_1_and_no_half_answer_on_stdout(desk: Desk) -> None:
    as_json, as_text, asked = await both_modes(desk, Said("half an ans", ending="cut"))

    assert (as_json.status, asked) == (1, 5)
    assert as_text.stdout == b""
    assert "half an ans" not in as_text.stderr


async def test_a_stream_that_stands_still_is_given_up_after_the_idle_time_of_its_provider(desk: Desk) -> None:
    async with chat_server(in_turn(Said("it stands", ending="stalled"), Said("it goes"))) as server:
        desk.use(server.url, provider="idle_s = 0.2")
        done = await desk.run("--mode", "json", "hello")

    assert (done.status, done.faults) == (0, [])
    partial, whole = answers_of(done)
    assert (partial["stopReason"], partial["errorMessage"]) == ("error", "the stream stood still for 0.2 s")
    assert whole["content"][0]["text"] == "it goes"


async def test_a_server_that_is_not_there_is_tried_again_and_then_named(desk: Desk) -> None:
    desk.use("http://127.0.0.1:9/v1")

    done = await desk.run("hello")

    assert (done.status, done.stdout) == (1, b"")
    assert "http://127.0.0.1:9/v1/chat/completions" in done.stderr


async def test_a_recovered_failure_of_a_child_changes_no_status_and_a_failed_child_is_no_failed_run(desk: Desk) -> None:
    plan: dict[str, list[Answer]] = {
        "root": [
            Said(
                calls=[
                    ("spawn_agent", {"name": "heals", "prompt": "a", "wait": True}),
                    ("spawn_agent", {"name": "fails", "prompt": "b", "wait": True}),
                ]
            ),
            Said("the root answers"),
        ],
        "heals": [BUSY, Said("healed")],
        "fails": [Refused(401)],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "go")

    assert (done.status, done.faults) == (0, [])
    outcomes = {done.names[event["childSessionId"]]: event["outcome"] for event in done.of("child_settled")}
    assert outcomes == {"heals": "completed", "fails": "failed"}
    assert {event["isError"] for event in done.of("tool_execution_end")} == {True, False}


async def test_a_limit_of_turns_is_status_3_in_both_modes(desk: Desk) -> None:
    async with chat_server(in_turn(Said(calls=[("bash", {"command": "true"})]))) as server:
        desk.use(server.url)
        as_json = await desk.run("--mode", "json", "--max-turns", "2", "hello")
        as_text = await desk.run("--max-turns", "2", "hello")

    assert (as_json.status, as_json.faults) == (3, [])
    assert (as_text.status, as_text.stdout) == (3, b"")
    assert "--max-turns" in as_text.stderr


WRONG: dict[str, tuple[list[str], dict[str, str], list[str]]] = {
    "no prompt": ([], {}, ["no prompt", "sapwood demo"]),
    "nothing but blanks": (["  "], {}, ["no prompt"]),
    "unknown provider": (["-m", "locol/fake-chat", "hi"], {}, ["locol", "local/fake-chat"]),
    "a provider without a model": (["-m", "local/", "hi"], {}, ["local/", "PROVIDER/ID"]),
    "an unknown model to fall back on": (["--fallback-model", "locol/x", "hi"], {}, ["locol"]),
    "an empty model": (["-m", "", "hi"], {}, ["PROVIDER/ID"]),
    "unknown level": (["--thinking", "very", "hi"], {}, ["very", "xhigh"]),
    "unknown option": (["--modal", "json", "hi"], {}, ["--modal", "--model"]),
    "unknown tool": (["-t", "bash,bush", "hi"], {}, ["bush", "bash"]),
    "no script": (["-m", "scripted/none.toml", "hi"], {}, ["none.toml"]),
    "no key of a known provider": (["-m", "groq/llama", "hi"], {}, ["GROQ_API_KEY", "--api-key"]),
    "no key of a provider of one's own": (["hi"], {"LOCAL_API_KEY": ""}, ["LOCAL_API_KEY", "--api-key"]),
    "unknown session": (["-r", "nowhere", "hi"], {}, ["nowhere"]),
    "no session to go on with": (["-c", "hi"], {}, ["no session"]),
    "two sessions at once": (["-c", "--no-session", "hi"], {}, ["at most one"]),
    "a home that is no absolute path": (["hi"], {"SAPWOOD_HOME": "here"}, ["SAPWOOD_HOME"]),
    "a file that is not there": (["look at", "@nothing.txt"], {}, ["nothing.txt", "@@"]),
}


async def test_wrong_usage_is_status_2_before_any_header_and_leaves_nothing_behind(desk: Desk) -> None:
    async with chat_server(in_turn(Said("never"))) as server:

        async def unsaid(desk: Desk, case: tuple[list[str], dict[str, str], list[str]]) -> list[str]:
            desk.use(server.url)
            done = await desk.run("--mode", "json", *case[0], environ=case[1])
            assert (done.status, done.stdout) == (2, b"")
            assert "Traceback" not in done.stderr
            assert [path.name for path in desk.files()] == ["config.toml"]
            return [text for text in case[2] if text not in done.stderr]

        assert await each(desk, WRONG, unsaid) == {name: [] for name in WRONG}
    assert (server.asked, server.others) == ([], [])


CONFIGURED_WRONG = {
    "no room for any child": ("[limits]\nmax_live_children = 0", "limits.max_live_children"),
    "a pause without end": ("[retry]\nbase_s = inf", "retry.base_s"),
    "a pause that is no number": ("[retry]\nceiling_s = nan", "retry.ceiling_s"),
    "a negative price": ('[providers.x]\n[[providers.x.models]]\nid = "m"\ncost = { input = -1.0 }', "cost.input"),
    "no time at all": ("[providers.x]\nidle_s = 0", "idle_s"),
    "no number of seconds": ("[providers.x]\nidle_s = nan", "idle_s"),
    "an unknown key": ('modle = "x"', "did you mean model?"),
    "an unknown key further in": ('[providers.x]\nbase_ulr = "http://x"', "did you mean providers.x.base_url?"),
    "a word for a number": ('[limits]\nmax_depth = "two"', "max_depth"),
    "no TOML": ("model = ", "TOML"),
}


async def test_a_configuration_that_cannot_be_meant_is_status_2_and_names_file_and_key(desk: Desk) -> None:
    async def told(desk: Desk, case: tuple[str, str]) -> tuple[int, bytes, list[bool]]:
        desk.configure(case[0])
        done = await desk.run("hello")
        texts = (str(desk.home / "config.toml"), case[1], "Traceback")
        return done.status, done.stdout, [text in done.stderr for text in texts]

    assert await each(desk, CONFIGURED_WRONG, told) == dict.fromkeys(CONFIGURED_WRONG, (2, b"", [True, True, False]))


async def test_without_a_model_and_without_a_key_it_says_what_it_looked_for(desk: Desk) -> None:
    done = await desk.run("hello")

    assert (done.status, done.stdout) == (2, b"")
    for word in ("-m PROVIDER/ID", "SAPWOOD_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "sapwood demo"):
        assert word in done.stderr
    assert not desk.home.exists()


async def test_a_server_at_openai_base_url_needs_neither_configuration_nor_a_models_name(desk: Desk) -> None:
    async with chat_server(in_turn(Said("found"))) as server:
        server.model = "only/one:latest"
        done = await desk.run("hello", environ={"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-of-openai"})
        named = await desk.run("-m", "gpt-x", "hello", environ={"OPENAI_BASE_URL": server.url})

    assert (done.status, done.stdout, done.stderr) == (0, b"found\n", "")
    assert [request.headers.get("authorization") for request in server.others] == ["Bearer sk-of-openai"]
    first, second = server.asked
    assert (first.body["model"], first.request.headers["authorization"]) == ("only/one:latest", "Bearer sk-of-openai")
    assert (named.status, second.body["model"], "authorization" in second.request.headers) == (0, "gpt-x", False)


NO_LIST: dict[str, Refused | None] = {
    "is not there": None,
    "has no list": Refused(404),
    "is no such server": Refused(200, "<html>hello</html>"),
    "lists nothing": Refused(200, {"data": []}),
    "lists something else": Refused(200, {"data": [{"name": "x"}]}),
    "sends one elsewhere": Refused(302, "", {"location": "/v1/other"}),
}


async def test_a_server_that_lists_no_model_is_named_with_the_reason(desk: Desk) -> None:
    async def told(desk: Desk, answer: Refused | None) -> tuple[int, bytes, bool, int]:
        async with chat_server(in_turn(Said("never"))) as server:
            server.listing = answer
            port = server.port if answer else 9
            url = f"http://user:sk-password-1234@127.0.0.1:{port}/v1"
            done = await desk.run("hello", environ={"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-of-openai-1234"})
        assert f"http://127.0.0.1:{port}/v1/models" in done.stderr
        return done.status, done.stdout, "sk-" in done.stderr, len(server.others)

    expected = {name: (2, b"", False, int(answer is not None)) for name, answer in NO_LIST.items()}
    assert await each(desk, NO_LIST, told) == expected


async def test_whatever_tools_print_stdout_holds_json_alone_in_json_mode(desk: Desk) -> None:
    loud = (
        r"""echo out; echo err >&2; printf 'no newline'; printf '\033[31mred\0\377\n{"type":"agent_settled"}\n' >&2"""
    )
    to_terminal = "echo straight > /dev/stdout; echo straight > /proc/self/fd/2; (echo later &) ; echo > /dev/fd/1"
    calls = [("bash", {"command": loud}), ("bash", {"command": to_terminal}), ("bash", {"command": "exit 7"})]
    async with chat_server(in_turn(Said(calls=calls), Said("done"))) as server:
        desk.use(server.url)
        as_json = await desk.run("--mode", "json", "hello")
        as_text = await desk.run("hello")

    assert (as_json.status, as_json.faults, as_json.stderr) == (0, [], "")
    assert as_json.events[0]["type"] == "session"
    assert (as_text.stdout, as_text.stderr) == (b"done\n", "")


async def test_the_bytes_through_a_pipe_are_those_that_a_file_gets(desk: Desk) -> None:
    async with chat_server(in_turn(Said("x" * 300_000, piece=3000))) as server:
        desk.use(server.url)
        piped = await desk.run("hello")
        with (desk.folder / "answer.txt").open("wb") as file:
            written = await desk.run("hello", stdout=file)

    assert (piped.status, written.status) == (0, 0)
    assert piped.stdout == (desk.folder / "answer.txt").read_bytes() == b"x" * 300_000 + b"\n"
