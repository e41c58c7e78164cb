"""Failures of the store.

StoreError
├── BadUsage          counts or money that no provider can mean
├── BadId             a session id that is not in the allow-list
├── BadWhen           a time or an interval that cannot be read, or that never comes
├── BadRecord         a line that is no entry
├── JournalDamaged    acknowledged bytes are gone; says where
├── JournalRefused    the file is not ours, or not of a version that we may write
├── JournalPoisoned   an fsync failed: reopen and read again
├── OwnedElsewhere    another process owns the tree; says which
└── ReadLimit         a bounded read would exceed its limit
"""


class StoreError(Exception):
    """Base of what the store raises."""


class BadUsage(StoreError):
    """Counts or money that no provider can mean: negative, not finite, absurd."""


class BadId(StoreError):
    """A session id outside `[0-9a-z][0-9a-z-]{7,63}`."""


class BadWhen(StoreError):
    """No form of a schedule's time that we know, or one that never comes."""


class BadRecord(StoreError):
    """A line that cannot be read as an entry."""


class JournalDamaged(StoreError):
    """Records that were acknowledged cannot be read. The file is left as it is."""


class JournalRefused(StoreError):
    """The file is not a journal of ours, or one of a newer format. It is left as it is."""


class JournalPoisoned(StoreError):
    """A flush failed, so what the disk holds is unknown until the journal is opened again."""


class OwnedElsewhere(StoreError):
    """Another process owns the tree."""


class ReadLimit(StoreError):
    """A complete answer would be larger than the reader allowed."""
