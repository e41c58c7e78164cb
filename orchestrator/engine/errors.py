"""Failures that end a command before or beside its tree.

EngineError        status 1
├── WrongUsage     status 2: a flag, a value, a model, a session that is not there
│   ├── NoKey      a provider's key, and where it was looked for
│   └── NothingLeft  a stored tree was to go on, and was not interrupted
└── NotOurs        status 4: another process owns the tree, or its journal is damaged
"""


class EngineError(Exception):
    """Base; the text says what was expected, what was found and what to do."""

    status = 1


class WrongUsage(EngineError):
    """What was asked cannot be done as it was asked."""

    status = 2


class NoKey(WrongUsage):
    """A provider cannot be called."""


class NothingLeft(WrongUsage):
    """There is nothing to go on with."""


class NotOurs(EngineError):
    """The tree cannot be opened for writing."""

    status = 4
