import pytest

from orchestrator.tools.registry import builtin_tools, child_env


def test_each_tool_is_found_by_the_name_that_models_use() -> None:
    tools = builtin_tools()
    assert list(tools) == [
        "bash",
        "read",
        "write",
        "edit",
        "spawn_agent",
        "wait_agents",
        "list_agents",
        "message_agent",
        "abort_agent",
    ]
    assert all(name == tool.spec.name for name, tool in tools.items())


def test_only_who_waits_for_others_holds_no_slot() -> None:
    assert {name for name, tool in builtin_tools().items() if tool.is_waiting} == {
        "spawn_agent",
        "wait_agents",
        "message_agent",
        "abort_agent",
    }


@pytest.mark.parametrize(
    ("name", "value", "is_passed"),
    [
        ("PATH", "/bin", True),
        ("LC_ALL", "C", True),
        ("VIRTUAL_ENV", "/v", True),
        ("https_proxy", "http://proxy:3128", True),
        ("https_proxy", "http://me:pass@proxy:3128", False),
        ("OPENAI_API_KEY", "canary", False),
        ("AWS_SESSION_TOKEN", "canary", False),
        ("LC_SECRET", "canary", False),
        ("LC_Password", "canary", False),
        ("DATABASE_URL", "canary", False),
        ("SSH_AUTH_SOCK", "canary", False),
        ("BASH_ENV", "/x", False),
        ("LD_PRELOAD", "/x", False),
    ],
)
def test_processes_see_what_is_on_the_list_and_no_secret(name: str, value: str, is_passed: bool) -> None:
    assert child_env({name: value}, {}) == ({name: value} if is_passed else {})


def test_what_is_given_on_top_wins_unless_it_is_a_secret() -> None:
    extra = {"TERM": "dumb", "SAPWOOD_SESSION": "s", "MY_KEY": "canary"}
    assert child_env({"TERM": "xterm"}, extra) == {"TERM": "dumb", "SAPWOOD_SESSION": "s"}
