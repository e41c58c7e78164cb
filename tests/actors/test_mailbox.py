"""A mailbox: one way in, drained whole, urgent mail first, and nothing of what lies in it is lost."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.clock import Clock
from actors.mailbox import Letter, Mailbox, in_hearing_order
from actors.protocol.mail import Abort, ChildWoken, Emptied, LedgerDrained, Mail, Prompt, Stop, TimerFired

numbers = st.integers(0, 9)
mails: st.SearchStrategy[Mail] = st.one_of(
    st.builds(Prompt, numbers.map(str), st.just("x")),
    st.builds(lambda number: Prompt(str(number), "x", origin="spawn_task"), numbers),
    st.builds(Abort, numbers.map(str)),
    st.builds(Stop, numbers.map(str)),
    st.builds(TimerFired, numbers),
    st.builds(LedgerDrained, numbers),
    st.just(Emptied()),
)


def letters(sent: list[Mail]) -> list[Letter]:
    return [Letter(mail, float(place)) for place, mail in enumerate(sent)]


def is_urgent(letter: Letter) -> bool:
    return isinstance(letter.mail, Abort | Stop)


@given(st.lists(mails, max_size=12))
def test_every_letter_is_heard_or_refused_exactly_once(sent: list[Mail]) -> None:
    batch = letters(sent)

    drained = in_hearing_order(batch)

    assert sorted((*drained.letters, *drained.refused), key=lambda letter: letter.at) == batch


@given(st.lists(mails, max_size=12))
def test_only_prompts_that_lie_in_front_of_an_abort_are_refused_and_no_task_is(sent: list[Mail]) -> None:
    batch = letters(sent)
    last = max((letter.at for letter in batch if is_urgent(letter)), default=-1.0)

    drained = in_hearing_order(batch)

    expected = [letter for letter in batch if isinstance(letter.mail, Prompt) and letter.at < last]
    assert list(drained.refused) == [letter for letter in expected if letter.mail.origin != "spawn_task"]  # type: ignore[union-attr]


@given(st.lists(mails, max_size=12))
def test_urgent_mail_is_heard_before_everything_but_the_tasks_that_it_ends(sent: list[Mail]) -> None:
    heard = in_hearing_order(letters(sent)).letters
    first_other = next(
        (place for place, one in enumerate(heard) if not is_urgent(one) and not isinstance(one.mail, Prompt)),
        len(heard),
    )

    assert not any(map(is_urgent, heard[first_other:]))


@given(st.lists(mails, max_size=12))
def test_letters_of_the_same_kind_keep_their_order(sent: list[Mail]) -> None:
    heard = in_hearing_order(letters(sent)).letters

    for kind in (Prompt, TimerFired, LedgerDrained, Abort | Stop):
        times = [letter.at for letter in heard if isinstance(letter.mail, kind)]
        assert times == sorted(times)


@given(st.lists(mails.filter(lambda mail: not isinstance(mail, Abort | Stop)), max_size=12))
def test_without_urgent_mail_the_order_is_that_of_arrival(sent: list[Mail]) -> None:
    drained = in_hearing_order(letters(sent))

    assert [*drained.letters] == letters(sent)
    assert not drained.refused


async def test_a_mailbox_is_drained_whole_and_stamps_what_comes(autojump_clock: MockClock) -> None:
    now = [10.0]
    mailbox = Mailbox(Clock(lambda: now[0]))
    mailbox.put(TimerFired(1))
    now[0] = 11.0
    mailbox.put(TimerFired(2))

    drained = await mailbox.drain()

    assert [(letter.mail, letter.at) for letter in drained.letters] == [(TimerFired(1), 10.0), (TimerFired(2), 11.0)]
    with trio.move_on_after(1.0) as scope:
        await mailbox.drain()
    assert scope.cancelled_caught


async def test_letters_that_are_put_back_come_first_again(autojump_clock: MockClock) -> None:
    mailbox = Mailbox.holding(TimerFired(1), TimerFired(2))
    drained = await mailbox.drain()
    mailbox.put(TimerFired(3))

    mailbox.put_back(drained.letters[1:])

    assert [letter.mail for letter in (await mailbox.drain()).letters] == [TimerFired(2), TimerFired(3)]


async def test_what_is_waiting_can_be_looked_at_without_taking_it(autojump_clock: MockClock) -> None:
    mailbox = Mailbox.holding(TimerFired(1), Abort())
    mailbox.put(ChildWoken("c"))

    looked = [letter.mail for letter in mailbox.waiting()]

    assert looked == [TimerFired(1), Abort(), ChildWoken("c")]
    assert {type(letter.mail) for letter in (await mailbox.drain()).letters} == {TimerFired, Abort, ChildWoken}


async def test_a_drain_that_is_cancelled_takes_nothing(autojump_clock: MockClock) -> None:
    mailbox = Mailbox()
    with trio.move_on_after(1.0):
        await mailbox.drain()
    mailbox.put(TimerFired(1))

    assert [letter.mail for letter in mailbox.close()] == [TimerFired(1)]


@pytest.mark.parametrize("urgent", [Abort(), Stop()])
async def test_a_pause_ends_with_urgent_mail_and_with_nothing_else(autojump_clock: MockClock, urgent: Mail) -> None:
    mailbox = Mailbox()
    began = trio.current_time()

    async def send() -> None:
        await trio.sleep(1.0)
        mailbox.put(TimerFired(1))
        await trio.sleep(1.0)
        mailbox.put(urgent)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        with mailbox.until_urgent(60.0):
            await trio.sleep_forever()

    assert trio.current_time() - began == pytest.approx(2.0)
    with mailbox.until_urgent(60.0):
        await trio.sleep_forever()
    assert trio.current_time() - began == pytest.approx(2.0)


async def test_a_pause_without_urgent_mail_lasts_its_time_and_one_after_a_drain_too(autojump_clock: MockClock) -> None:
    mailbox = Mailbox.holding(Abort())
    await mailbox.drain()
    began = trio.current_time()

    with mailbox.until_urgent(7.0):
        await trio.sleep_forever()

    assert trio.current_time() - began == pytest.approx(7.0)


async def test_a_pause_that_is_over_is_not_cancelled_by_what_comes_later(autojump_clock: MockClock) -> None:
    mailbox = Mailbox()
    with mailbox.until_urgent(1.0):
        await trio.lowlevel.checkpoint()

    mailbox.put(Abort())
    await wait_all_tasks_blocked()
    assert mailbox.is_urgent
