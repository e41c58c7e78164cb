"""Who may spend what in a tree: accounts, claims on them for calls under way, and calls that stand by.

A call claims its worst case at the account of its session and at each above it, all in one step, before it is made. When it has
ended, what it used is spent and the claim is gone. So `spent + claimed` never passes what is allowed, whatever runs in
parallel, but for what an input was guessed too low, or an answer if nobody knows how much its model puts out.

What fits beside what is spent, and not beside what is claimed, stands by until a claim goes, first come first served: nobody
passes an earlier one at an account that has no room for it. Who stands by has no claim, so nobody waits in a circle.
"""

from collections.abc import Mapping

import msgspec

from actors.protocol.budgets import LIMITS, Account, Amount, Bid, Estimate, Shortage, Used, bid, in_units
from actors.protocol.questions import Go, HandBack, MayCall, Refuse, StandBy
from store.usage import PICO_PER_USD

# The least that any call takes.
LEAST = Amount(1, 1, 1)
NOTHING = Amount()
Granted = Go | HandBack | Refuse


class Claim(msgspec.Struct, frozen=True):
    """What a call may take at the most. `is_made`: it is under way."""

    session_id: str
    estimate: Estimate
    amount: Amount
    is_made: bool = False


class Standing(msgspec.Struct, frozen=True):
    """A call that stands by, and the holders that had no room for it."""

    question: MayCall
    short: frozenset[str]


class Answered(msgspec.Struct, frozen=True):
    """What somebody who stood by is told."""

    session_id: str
    directive: Granted


class Budgets(msgspec.Struct, frozen=True):
    """`accounts` by holder; `chains`: the holders above each session, its own account first; `claims` by number."""

    accounts: dict[str, Account] = {}
    chains: dict[str, tuple[str, ...]] = {}
    claims: dict[int, Claim] = {}
    standing: tuple[Standing, ...] = ()
    number: int = 0

    def opened(
        self, session_id: str, name: str, parent_id: str | None, limits: Mapping[str, float], spent: Amount = NOTHING
    ) -> "Budgets":
        """With this session in it, and an account for it if it has limits of its own."""
        chain, allowed = self.chains.get(parent_id or "", ()), in_units(limits)
        accounts = self.accounts
        if allowed:
            chain = (session_id, *chain)
            accounts = {**accounts, session_id: Account(session_id, name, allowed, parent_id is None, spent)}
        chains = {**self.chains, session_id: chain} if chain else self.chains
        return msgspec.structs.replace(self, accounts=accounts, chains=chains)

    def closed(self, session_id: str) -> "Budgets":
        """Without this session, which has spent nothing."""
        chains = {one: chain for one, chain in self.chains.items() if one != session_id}
        accounts = {one: account for one, account in self.accounts.items() if one != session_id}
        return msgspec.structs.replace(self, accounts=accounts, chains=chains)

    def chain(self, session_id: str) -> list[Account]:
        """The accounts that a session's calls are paid from; none: nobody counts."""
        return [self.accounts[holder] for holder in self.chains.get(session_id, ())]

    def granted(
        self, parent_id: str, model: str, limits: Mapping[str, float], *, is_priced: bool
    ) -> dict[str, float] | Refuse:
        """The limits of a child that asks for these: of no more than what its parent's calls are left with. Or why it cannot be."""
        chain, given = self.chain(parent_id), dict(limits)
        used_up = next((account for account in chain if account.short_for(LEAST) is not None), None)
        if used_up is not None:
            return _refusal(Shortage(used_up, LEAST))
        costed = [account for account in chain if "max_cost" in account.allowed]
        if not is_priced and (costed or "max_cost" in limits):
            reason = f"max_cost cannot be kept: the price of {model} is not known; use max_tokens"
            return Refuse("max_cost", 1, 0, costed[0].holder_id if costed else parent_id, reason)
        for limit in LIMITS:
            left = [account.left(limit) for account in chain if limit in account.allowed]
            if limit in given and left:
                given[limit] = min(given[limit], min(left) / _unit(limit))
        return given

    def asked(self, question: MayCall) -> tuple["Budgets", Granted | StandBy]:
        """May it call? What it had claimed before has been withdrawn, or has ended."""
        held = frozenset[str]().union(*(standing.short for standing in self.standing))
        return self._answered(question, held)

    def made(self, number: int) -> "Budgets":
        """The call is made now. Only its end lets go of the claim."""
        if number not in self.claims:
            return self
        claims = {**self.claims, number: msgspec.structs.replace(self.claims[number], is_made=True)}
        return msgspec.structs.replace(self, claims=claims)

    def ended(self, session_id: str, number: int, used: Used | None) -> tuple["Budgets", tuple[Answered, ...]]:
        """A call has ended; `used` None: it was never made. And what those are told who stood by."""
        claim = self.claims.get(number)
        spent = NOTHING if used is None else used.amount
        unreported = NOTHING
        if claim is not None and used is not None:
            # One that only hands back is no turn.
            spent = msgspec.structs.replace(spent, turns=claim.amount.turns)
            unreported = used.unreported(claim.estimate, claim.amount)
        return self._charged(session_id, number, spent, unreported)._next()

    def withdrawn(self, session_id: str) -> tuple["Budgets", tuple[Answered, ...]]:
        """The session wants no call any more, and makes none that it was granted."""
        unmade = [n for n, claim in self.claims.items() if claim.session_id == session_id and not claim.is_made]
        standing = tuple(one for one in self.standing if one.question.session_id != session_id)
        if not unmade and len(standing) == len(self.standing):
            return self, ()
        after = msgspec.structs.replace(self, standing=standing)
        for number in unmade:
            after = after._charged(session_id, number, NOTHING, NOTHING)
        return after._next()

    def _charged(self, session_id: str, number: int, spent: Amount, unreported: Amount) -> "Budgets":
        claim = self.claims.get(number)
        free = NOTHING if claim is None else claim.amount
        accounts = {
            account.holder_id: msgspec.structs.replace(
                account,
                spent=account.spent + spent,
                claimed=account.claimed - free,
                unreported=account.unreported + unreported,
            )
            for account in self.chain(session_id)
        }
        claims = {one: claim for one, claim in self.claims.items() if one != number}
        return msgspec.structs.replace(self, accounts={**self.accounts, **accounts}, claims=claims)

    def _next(self) -> tuple["Budgets", tuple[Answered, ...]]:
        """Ask again for all who stand by, in the order in which they came."""
        after = msgspec.structs.replace(self, standing=())
        answers: list[Answered] = []
        held: frozenset[str] = frozenset()
        for one in self.standing:
            after, directive = after._answered(one.question, held)
            if isinstance(directive, StandBy):
                held |= after.standing[-1].short
            else:
                answers.append(Answered(one.question.session_id, directive))
        return after, tuple(answers)

    def _answered(self, question: MayCall, held: frozenset[str]) -> tuple["Budgets", Granted | StandBy]:
        chain, estimate = self.chain(question.session_id), question.estimate
        if not chain:
            return self, Go()
        costed = next((account for account in chain if "max_cost" in account.allowed), None)
        if costed is not None and estimate.price is None:
            return self, _unpriced(costed, question)
        offer = bid(
            chain,
            estimate,
            has_said=question.has_said,
            is_last=question.is_last,
            is_summary=question.is_summary,
        )
        if isinstance(offer, Shortage):
            return self, _refusal(offer)
        short = frozenset(one.holder_id for one in chain if one.short_for(one.claimed + offer.amount) is not None)
        if short or held.intersection(account.holder_id for account in chain):
            standing = (*self.standing, Standing(question, short))
            return msgspec.structs.replace(self, standing=standing), StandBy()
        return self._granted(question, chain, offer)

    def _granted(self, question: MayCall, chain: list[Account], offer: Bid) -> tuple["Budgets", Granted]:
        claim, number = Claim(question.session_id, question.estimate, offer.amount), self.number + 1
        accounts = {
            account.holder_id: msgspec.structs.replace(account, claimed=account.claimed + offer.amount)
            for account in chain
        }
        after = msgspec.structs.replace(
            self, accounts={**self.accounts, **accounts}, claims={**self.claims, number: claim}, number=number
        )
        output = offer.bound(chain, question.estimate)
        refuse = None if offer.short is None else _refusal(offer.short)
        if offer.is_last and refuse is not None:
            return after, HandBack(number, output, refuse)
        return after, Go(number, output, refuse)


def _refusal(shortage: Shortage) -> Refuse:
    """Why a call is not made: the limit, what is used of it, what the call would take, how to raise the limit."""
    account, amount = shortage.account, shortage.amount
    limit = account.short_for(amount) or next(iter(account.allowed))
    where = "the whole tree" if account.is_root else f"{account.name} and all below it"
    reason = f"the limit of {_told(limit, account.allowed[limit])} for {where} is reached"
    if limit != "max_turns":
        cut = account.unreported.of(limit)
        kept = f" ({_told(limit, cut)} of it kept for calls that were cut and may be billed)" if cut else ""
        used, more = _told(limit, account.charged(limit)), _told(limit, amount.of(limit))
        reason += f": {used} are used{kept}, and the next call may take {more}"
    if account.is_root:
        reason += f"; raise it with --{limit.replace('_', '-')}"
    unit = _unit(limit)
    value = (account.charged(limit) + amount.of(limit)) / unit
    return Refuse(limit, value, account.allowed[limit] / unit, account.holder_id, reason)


def _told(limit: str, amount: int) -> str:
    if limit == "max_cost":
        return f"${amount / PICO_PER_USD:.6g}"
    return f"{amount} {'tokens' if limit == 'max_tokens' else 'turns'}"


def _unpriced(account: Account, question: MayCall) -> Refuse:
    reason = f"max_cost of {account.name} cannot be kept: the price of {question.model} is not known; use max_tokens"
    allowed = account.allowed["max_cost"] / PICO_PER_USD
    return Refuse("max_cost", allowed, allowed, account.holder_id, reason)


def _unit(limit: str) -> int:
    return PICO_PER_USD if limit == "max_cost" else 1
