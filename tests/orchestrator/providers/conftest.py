"""Fixtures of the tests that need programs of other people."""

from tests.orchestrator.http.command import desk
from tests.peers.npm import npm_peers

__all__ = ["desk", "npm_peers"]
