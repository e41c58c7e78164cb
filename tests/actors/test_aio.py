"""A session manager off the loop: in order, one call at a time, and never half done."""

import threading
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from actors.aio import session
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.manager import SessionManager
from store.errors import OwnedElsewhere, StoreError
from store.messages import user_text


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, tmp_path / "sessions", RealFs())


async def test_a_session_is_written_and_read_in_other_threads(home: Home) -> None:
    async with session(partial(SessionManager.create, "/work", name="mine", home=home)) as mine:
        entry = await mine.do(lambda manager: manager.append_message(user_text("hello", 0)))
        path = await mine.do(lambda manager: manager.file)
        thread = await mine.do(lambda manager: threading.get_ident())
        with pytest.raises(StoreError, match="expected the id of an entry"):
            await mine.do(lambda manager: manager.branch_to("nowhere"))

    assert thread != threading.get_ident()
    assert path is not None
    async with session(partial(SessionManager.open_read_only, path, home=home)) as read:
        assert [record.id for record in await read.do(lambda manager: manager.read_branch())] == [entry]


async def test_calls_of_many_tasks_come_one_after_the_other(home: Home) -> None:
    at_work: list[int] = []

    def append(number: int, manager: SessionManager) -> None:
        at_work.append(number)
        manager.append_message(user_text(str(number), number))
        assert at_work == [number]
        at_work.clear()

    async with session(partial(SessionManager.create, "/work", home=home)) as mine:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(mine.do, partial(append, number))
        branch = await mine.do(lambda manager: manager.read_branch())

    assert len(branch) == 20
    assert [record.parent_id for record in branch[1:]] == [record.id for record in branch[:-1]]


async def test_the_loop_goes_on_while_a_call_waits_and_a_cancelled_call_is_waited_for(home: Home) -> None:
    begun, released = threading.Event(), threading.Event()

    def slow(manager: SessionManager) -> None:
        begun.set()
        released.wait()
        manager.append_message(user_text("slow", 0))

    async with session(partial(SessionManager.create, "/work", home=home)) as mine:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mine.do, slow)
            await trio.to_thread.run_sync(begun.wait)
            nursery.start_soon(mine.do, lambda manager: manager.append_message(user_text("never begun", 0)))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            released.set()
        texts = [record.raw for record in await mine.do(lambda manager: manager.read_entries())]

    assert [b"slow" in text for text in texts] == [True]


async def test_a_cancelled_program_lets_its_session_go(home: Home) -> None:
    path: Path | None = None
    with trio.CancelScope() as scope:
        async with session(partial(SessionManager.create, "/work", home=home)) as mine:
            await mine.do(lambda manager: manager.append_message(user_text("hello", 0)))
            path = await mine.do(lambda manager: manager.file)
            with pytest.raises(OwnedElsewhere):
                SessionManager.open(str(path), home=home)
            scope.cancel()
            await trio.sleep_forever()

    SessionManager.open(str(path), home=home).close()
