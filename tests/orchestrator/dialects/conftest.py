"""The command in a process of its own."""

from tests.orchestrator.http.command import desk

__all__ = ["desk"]
