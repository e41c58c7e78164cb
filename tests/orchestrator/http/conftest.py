"""Fixtures of the tests that go over HTTP."""

from tests.orchestrator.http.command import desk

__all__ = ["desk"]
