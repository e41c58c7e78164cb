"""What cells ask of the tree: children, messages, compaction."""

from typing import Any

import trio

from actors.protocol.tools import (
    AbortChild,
    Aborted,
    ChildReport,
    Compact,
    Compaction,
    CompactStatus,
    DeleteChild,
    Deleted,
    FindModels,
    ListFamily,
    ModelRow,
    Models,
    Receipt,
    Receipts,
    Refused,
    Send,
    Spawn,
    WaitFor,
)


async def test_a_child_is_a_handle_as_soon_as_it_is_admitted(bench: Any, tree: Any) -> None:
    await bench.text("h = await rlm('do it', name='a', model='fake/big')")
    assert await bench.text("h.name, h.session_id, h.model") == "('a', 'session-of-a', 'fake/big')"
    assert await bench.text("h") == "Handle(name='a', session_id='session-of-a', model='fake/big')"
    assert tree.asked == [Spawn("do it", name="a", model="fake/big", tool_call_id="call/1")]


async def test_every_option_arrives(plain: Any, tree: Any) -> None:
    await plain.text(
        "h = await rlm('p', name='n', model='m/x', thinking='high', tools=('bash', 'read'), max_cost=1, max_tokens=9,"
        " timeout=2.5)"
    )
    limits = {"max_cost": 1.0, "max_tokens": 9.0, "timeout_s": 2.5}
    assert tree.asked == [Spawn("p", "n", "m/x", "high", ("bash", "read"), limits, "call/1")]


async def test_a_wrong_option_is_an_error_and_no_child(plain: Any, tree: Any) -> None:
    for code, told in [
        ("rlm('p', nam='x')", "rlm() has no option nam=; did you mean name=?"),
        ("rlm('p', zzz=1)", "rlm() has no option zzz=; known are name, model, thinking, tools, max_cost"),
        ("rlm('p', temperature=1)", "rlm() has no option temperature=; "),
        ("rlm('')", "expected a string that says all the child needs as prompt, found ''"),
        ("rlm(None)", "as prompt, found None"),
        ("rlm(5)", "as prompt, found 5"),
        ("rlm('p', name=5)", "expected a string as name, found 5"),
        ("rlm('p', tools=[1])", "expected names as tools, found 1"),
        ("rlm('p', max_cost=-1)", "expected a number of at least 0 as max_cost, found -1"),
        ("rlm('p', max_cost=float('nan'))", "as max_cost, found nan"),
        ("rlm('p', timeout=True)", "expected seconds above 0 as timeout, found True"),
        ("rlm('p', timeout_s=0)", "as timeout, found 0"),
        ("rlm('p', 'name')", "positional"),
    ]:
        error = await plain.error("await " + code)
        assert "TypeError: " in error, code
        assert told in error, code
    assert tree.asked == []


async def test_a_refusal_is_an_error_with_its_reason(bench: Any) -> None:
    async def refuse(request: Any) -> Any:
        return Refused("max_depth is 2")

    bench.place.family = type("Refusing", (), {"ask": staticmethod(refuse)})()
    told = await bench.error("await rlm('p')")
    assert told.endswith("Refused: max_depth is 2")
    assert told.split("\n")[1] == '  File "<cell 1>", line 1, in <module>'
    assert (
        await bench.text("try:\n    await rlm('p')\nexcept rlm.Refused as error:\n    print(error)") == "max_depth is 2"
    )


async def test_sixty_four_children_from_one_cell(bench: Any, tree: Any) -> None:
    tree.let_settle.set()
    code = """import asyncio
hs = await asyncio.gather(*[rlm('task ' + str(i), name='c' + str(i)) for i in range(64)])
rs = await asyncio.gather(*[h.result() for h in hs])
print(len(hs), hs[0].name, hs[63].session_id, {r.outcome for r in rs}, rs[63].text)"""
    result = await bench.run(code)
    assert result.content[0].text == "64 c0 session-of-c63 {'completed'} answer to task 63\n"
    assert sum(isinstance(request, Spawn) for request in tree.asked) == 64
    assert set(result.delivers) == {f"session-of-c{n}/1" for n in range(64)}


async def test_children_from_loops_tasks_and_threads(bench: Any) -> None:
    assert await bench.text("hs = []\nfor n in range(3):\n    hs.append(await rlm('p', name=f'l{n}'))\nlen(hs)") == "3"
    assert "coroutine 'rlm' was never awaited" in await bench.text("rlm('p');\nimport gc; gc.collect();")
    assert await bench.text("h = rlm('p', name='later')") == "(no output)"
    assert await bench.text("(await h).name") == "'later'"
    assert (
        await bench.text("import asyncio\nt = asyncio.create_task(rlm('p', name='task'))\n(await t).name") == "'task'"
    )
    code = """import threading
def work():
    names.append(asyncio.run(rlm('p', name='thread')).name)
names = []
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
names"""
    assert await bench.text(code) == "['thread', 'thread', 'thread', 'thread']"


async def test_a_fork_cannot_ask_in_the_name_of_the_kernel(plain: Any, tree: Any) -> None:
    code = """import asyncio, os
if os.fork() == 0:
    try:
        asyncio.new_event_loop().run_until_complete(rlm('p'))
    except RuntimeError as error:
        print(error)
    os._exit(0)
_ = os.wait()"""
    assert "fork" in await plain.text(code)
    assert tree.asked == []


async def test_a_result_has_the_outcome_and_the_whole_text(bench: Any, tree: Any) -> None:
    tree.let_settle.set()
    await bench.text("h = await rlm('p', name='a')\nr = await h.result(timeout=5)")
    assert await bench.text("r.ok, r.outcome, r.status, r.text, r['text'], r.turns") == (
        "(True, 'completed', 'completed', 'answer to p', 'answer to p', 1)"
    )
    assert await bench.text("print(r)") == "answer to p"
    assert tree.asked[-1].names == ("a",)
    assert await bench.text("(await rlm('q', name='b', wait=True)).text") == "'answer to q'"


async def test_a_wait_that_is_over_gives_the_progress(plain: Any) -> None:
    await plain.text("h = await rlm('p', name='a')")
    result = await plain.run("r = await h.result(timeout=0.02)\nr.ok, r.status, r.outcome, r.text, str(r)")
    assert result.content[0].text == "(False, 'running', '', 'answer to p', '[running] answer to p')\n"
    assert result.delivers == ()
    assert await plain.text("ws = await rlm.wait([h], timeout=0)\nws.ended, ws[0].status") == "('timeout', 'running')"


async def test_waits_take_handles_names_and_results_alike(plain: Any, tree: Any) -> None:
    tree.let_settle.set()
    await plain.text("a = await rlm('p', name='a')\nb = await rlm('q', name='b')")
    assert await plain.text("[r.name for r in await rlm.wait()]") == "['a', 'b']"
    assert await plain.text("[r.name for r in await rlm.wait(a)]") == "['a']"
    assert await plain.text("[r.name for r in await rlm.wait([a, 'b'], mode='any')]") == "['a', 'b']"
    assert tree.asked[-1].mode == "any"
    assert await plain.text("(await rlm.wait(await rlm.list_subagents()))[1].name") == "'b'"
    assert "as timeout, found -1" in await plain.error("await rlm.wait(timeout=-1)")
    assert "expected the name or handle of an agent, found 5" in await plain.error("await rlm.wait([5])")
    assert "that is no request" in await plain.error("await rlm.wait(mode='some')")


async def test_time_in_waits_does_not_count(plain: Any, tree: Any) -> None:
    await plain.text("h = await rlm('p', name='a')")
    async with trio.open_nursery() as nursery:
        results: list[Any] = []

        async def run() -> None:
            results.append(await plain.run("(await h.result()).text", timeout_s=0.3))

        nursery.start_soon(run)
        await trio.sleep(0.6)  # longer than the timeout
        assert results == []
        tree.let_settle.set()
    assert results[0].details["status"] == "ok"


async def test_a_timeout_comes_also_after_a_wait(plain: Any, tree: Any) -> None:
    tree.let_settle.set()
    await plain.text("h = await rlm('p', name='a')")
    assert (await plain.run("await h.result()\nwhile True: pass", timeout_s=0.2)).details["status"] == "timeout"


async def test_a_wait_that_the_cell_gives_up_is_given_up(bench: Any, tree: Any) -> None:
    await bench.text("import asyncio\nh = await rlm('p', name='a')")
    code = "try:\n    await asyncio.wait_for(h.result(), 0.02)\nexcept asyncio.TimeoutError:\n    print('gave up')"
    assert await bench.text(code) == "gave up"
    with trio.fail_after(5):
        while not tree.cancelled:  # noqa: ASYNC110
            await trio.sleep(0.005)
    assert isinstance(tree.cancelled[0], WaitFor)


async def test_a_wait_in_a_task_goes_on_with_the_next_cell(bench: Any, tree: Any) -> None:
    await bench.text("import asyncio\nh = await rlm('p', name='a')")
    await bench.text("t = asyncio.create_task(h.result())\nawait asyncio.sleep(0.02)")
    tree.let_settle.set()
    result = await bench.run("(await t).text")
    assert result.content[0].text == "'answer to p'\n"
    assert result.delivers == ("session-of-a/1",)
    waits = [request for request in tree.asked if isinstance(request, WaitFor)]
    assert len(waits) == 2
    assert waits[1].timeout_s < waits[0].timeout_s


async def test_a_child_that_is_asked_for_between_cells_comes_with_the_next(bench: Any, tree: Any) -> None:
    await bench.text("""import asyncio
async def later():
    await asyncio.sleep(0.02)
    return await rlm('p', name='a')
t = asyncio.create_task(later())""")
    await trio.sleep(0.05)
    assert tree.asked == []
    assert await bench.text("(await t).name") == "'a'"


async def test_a_cell_ends_only_when_its_children_are_known(plain: Any, tree: Any) -> None:
    admit = trio.Event()

    async def slowly(request: Any) -> Any:
        await admit.wait()
        return await type(tree)._answer(tree, request)

    plain.place.family = type("Slow", (), {"ask": staticmethod(slowly)})()
    results: list[Any] = []
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            results.append(
                await plain.run("import asyncio\nt = asyncio.create_task(rlm('p', name='a'))\nawait asyncio.sleep(0)")
            )

        nursery.start_soon(run)
        await trio.sleep(0.3)
        assert results == []
        admit.set()
    assert await plain.text("(await t).name") == "'a'"


async def test_cancelling_a_cell_cancels_what_it_asks(plain: Any, tree: Any) -> None:
    await plain.text("h = await rlm('p', name='a')")
    with trio.CancelScope() as scope:
        plain.place.on_progress = lambda text: scope.cancel()
        await plain.run(
            "import asyncio\nt = asyncio.ensure_future(h.result())\nawait asyncio.sleep(0.05)\nprint('on')\nawait t"
        )
    assert scope.cancelled_caught
    assert isinstance(tree.cancelled[0], WaitFor)
    assert await plain.text("h.name") == "'a'"


async def test_the_family_is_listed(bench: Any, tree: Any) -> None:
    await bench.text("h = await rlm('p', name='a')")
    code = "subs = await rlm.list_subagents()\n[(s.name, s.session_name, s.status, s.tokens, s.cost_usd) for s in subs]"
    assert await bench.text(code) == "[('a', 'a', 'completed', 20, 1.0)]"
    assert await bench.text("[(a.role, a.name, a.status) for a in await agent_message.list_agents()]") == (
        "[('parent', 'parent', 'running'), ('child', 'a', 'completed')]"
    )
    assert isinstance(tree.asked[-1], ListFamily)
    assert "Agent has no 'colour'; it has name, role" in await bench.error("subs[0].colour")


async def test_messages(bench: Any, tree: Any) -> None:
    tree.answer_for = lambda request: Receipt("queued", "m1", request.to)
    assert (
        await bench.text("r = await agent_message.send('hi')\nr")
        == "Receipt(to='parent', delivery='queued', message_id='m1')"
    )
    assert await bench.text("r.delivery, r['deliveryStatus'], r['id']") == "('queued', 'queued', 'm1')"
    await bench.text("h = await rlm('p', name='a')")
    for code, request in [
        ("agent_message.send('hi', to='parent', mode='steer')", Send("parent", "hi", "steer")),
        ("agent_message.send('hi', h)", Send("a", "hi")),
        ("h.send('hi', 'follow_up')", Send("a", "hi", "follow_up")),
        ("agent_message.send('hi', receiver_role='parent')", Send("parent", "hi")),
        ("agent_message.send('hi', receiver_role='child', receiver_name='a')", Send("a", "hi")),
    ]:
        await bench.text("_ = await " + code)
        assert tree.asked[-1] == request
    tree.answer_for = lambda request: Receipts((Receipt("queued", "m1", "a"), Receipt("delivered", "m2", "b")))
    assert await bench.text("[r.to for r in await agent_message.send('hi', to='all')]") == "['a', 'b']"
    assert "as message, found ''" in await bench.error("await agent_message.send('')")


async def test_children_are_aborted_and_deleted(plain: Any, tree: Any) -> None:
    await plain.text("h = await rlm('p', name='a')")
    report = ChildReport("session-of-a", "a", "aborted", 1, "so far", turns=1)
    tree.answer_for = lambda request: (
        Aborted(report) if isinstance(request, AbortChild) else Deleted("session-of-a", "a")
    )
    result = await plain.run("r = await h.abort()\nr.outcome, r.ok, r.text")
    assert result.content[0].text == "('aborted', False, 'so far')\n"
    assert result.delivers == ("session-of-a/1",)
    await plain.text("d = await rlm.delete_subagent(h)")
    assert tree.asked[-2:] == [AbortChild("a"), DeleteChild("a")]
    assert await plain.text("d.name, d.deleted") == "('a', True)"


async def test_models_and_compaction(plain: Any, tree: Any) -> None:
    tree.answer_for = lambda request: Models((ModelRow("fake/big", "fake", "big", 1000), ModelRow("x/y", "x", "y")))
    assert await plain.text("ms = await rlm.find_models('big')\n[m.selector for m in ms]") == "['fake/big', 'x/y']"
    assert tree.asked[-1] == FindModels("big")
    tree.answer_for = lambda request: Compaction("scheduled", 10, 100)
    assert await plain.text("c = await compact.run('keep names')\nc.status, c.context_tokens") == "('scheduled', 10)"
    assert await plain.text("await compact.status()") == (
        "Record(status='scheduled', context_tokens=10, context_window=100)"
    )
    assert tree.asked[-2:] == [Compact("keep names"), CompactStatus()]


async def test_what_is_preloaded_can_be_imported_unless_the_project_has_one(bench: Any) -> None:
    assert await bench.text("import rlm as other, agent_message, compact\nother is rlm") == "True"
    bench.place.file("compact.py", "mine = True")
    await bench.tool.kernels.aclose()
    assert (await bench.text("import compact\ncompact.mine")).endswith("True")


async def test_a_request_without_bounds_is_refused_in_the_kernel(plain: Any, tree: Any) -> None:
    assert "ValueError: the request has 20,000," in await plain.error("await rlm('x' * 20_000_000)")
    assert await plain.text("h = await rlm('x' * 10_000_000, name='big')") == "(no output)"
    assert len(tree.asked[-1].prompt) == 10_000_000
    assert await plain.text("h = await rlm('\\ud800 é \\u2028')") == "(no output)"
    assert tree.asked[-1].prompt == "? é \u2028"
