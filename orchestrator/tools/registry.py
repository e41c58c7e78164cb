"""The tools that are always there, and the environment that their processes see."""

from collections.abc import Mapping

from actors.protocol.tools import Tool
from orchestrator.tools.agents import ListAgentsTool, SpawnAgentTool, WaitAgentsTool
from orchestrator.tools.bash import BashTool
from orchestrator.tools.edit import EditTool
from orchestrator.tools.messages import AbortAgentTool, MessageAgentTool
from orchestrator.tools.read import ReadTool
from orchestrator.tools.write import WriteTool

_PASSED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PWD",
        "LANG",
        "LANGUAGE",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "TZ",
        "TMPDIR",
        "EDITOR",
        "PAGER",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "PYTHONPATH",
        "PYENV_ROOT",
        "NVM_DIR",
        "GOPATH",
        "GOROOT",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "JAVA_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    }
)
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def builtin_tools() -> dict[str, Tool]:
    """By name, in the order in which models are told of them."""
    tools: tuple[Tool, ...] = (
        BashTool(),
        ReadTool(),
        WriteTool(),
        EditTool(),
        SpawnAgentTool(),
        WaitAgentsTool(),
        ListAgentsTool(),
        MessageAgentTool(),
        AbortAgentTool(),
    )
    return {tool.spec.name: tool for tool in tools}


def child_env(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the processes of tools: what is on the list, and `extra` on top.

    A name that sounds like a secret is never passed, not even by `extra`, nor a proxy with a password in its URL.
    """
    passed = {name: value for name, value in environ.items() if name in _PASSED or name.startswith("LC_")}
    return {name: value for name, value in {**passed, **extra}.items() if not _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    upper = name.upper()
    is_proxy_with_password = upper.endswith("_PROXY") and "@" in value
    return is_proxy_with_password or any(word in upper for word in _SECRET_WORDS)
