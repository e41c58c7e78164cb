"""Configuration: who wins, what is refused, and that a refusal says where and what was meant."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.engine.config import Config, load_config
from orchestrator.engine.errors import WrongUsage

PROVIDERS = '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with an empty configuration; the person's own is another one."""
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    (folder / ".sapwood").mkdir(parents=True)
    return folder


def load(home: Path, cwd: Path) -> Config:
    return load_config(home / "config.toml", cwd)


def refusal(home: Path, cwd: Path) -> str:
    with pytest.raises(WrongUsage) as caught:
        load(home, cwd)
    return str(caught.value)


def test_without_files_there_are_the_defaults(home: Path, tmp_path: Path) -> None:
    assert load(home, tmp_path) == Config()


def test_the_projects_file_wins_over_the_homes_key_by_key(home: Path, project: Path) -> None:
    (home / "config.toml").write_text('model = "a/b"\n[limits]\nmax_depth = 7\nmax_children = 9\n' + PROVIDERS)
    (project / ".sapwood" / "config.toml").write_text("[limits]\nmax_depth = 3\n[retry]\nmax_retries = 0\n")
    (project / "deep" / "down").mkdir(parents=True)

    for cwd in (project, project / "deep" / "down"):
        config = load(home, cwd)
        assert (config.model, config.limits.max_depth, config.limits.max_children) == ("a/b", 3, 9)
        assert (config.retry.max_retries, config.retry.base_s) == (0, 1.0)
        assert list(config.providers) == ["mine"]
    assert load(home, project.parent).limits.max_depth == 7


def test_durability_is_one_of_three(home: Path, tmp_path: Path) -> None:
    assert load(home, tmp_path).durability == "group"
    (home / "config.toml").write_text('durability = "full"\n')
    assert load(home, tmp_path).durability == "full"
    (home / "config.toml").write_text('durability = "fsync"\n')
    assert "durability" in refusal(home, tmp_path)


def test_the_nearest_project_is_the_only_one(home: Path, project: Path) -> None:
    (project / ".sapwood" / "config.toml").write_text('model = "outer/x"\n[limits]\nmax_depth = 5\n')
    inner = project / "inner"
    (inner / ".sapwood").mkdir(parents=True)
    (inner / ".sapwood" / "config.toml").write_text('model = "inner/x"\n')
    assert load(home, inner) == msgspec.structs.replace(Config(), model="inner/x")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("modle = 'x'", "modle; did you mean model?"),
        ("[limits]\nmax_dept = 1", "limits.max_dept; did you mean limits.max_depth?"),
        ("[gates]\ncommand = ['x']", "gates.command; did you mean gates.commands?"),
        ("[retry]\nmax_retry = 1", "retry.max_retry; did you mean retry.max_retries?"),
        ("[providers.local]\nbase_ulr = 'x'", "providers.local.base_ulr; did you mean providers.local.base_url?"),
        (
            "[[providers.local.models]]\nid = 'a'\n[[providers.local.models]]\nid = 'b'\ncontext_windows = 1",
            "providers.local.models.context_windows; did you mean providers.local.models.context_window?",
        ),
        (
            "[[providers.local.models]]\nid = 'a'\ncost = { inputs = 1.0 }",
            "providers.local.models.cost.inputs; did you mean providers.local.models.cost.input?",
        ),
        ("zzz = 1", "zzz; known: model, limits, retry"),
    ],
)
@pytest.mark.parametrize("whose", ["home", "project"])
def test_an_unknown_key_names_the_nearest_one_at_any_depth(
    home: Path, project: Path, text: str, wanted: str, whose: str
) -> None:
    file = home / "config.toml" if whose == "home" else project / ".sapwood" / "config.toml"
    file.write_text(text)
    told = refusal(home, project)
    assert told.startswith(f"{file}: there is no setting ")
    assert wanted in told


@pytest.mark.parametrize(
    "text",
    [
        "limits = 5",
        "[limits]\nmax_depth = 'two'",
        "[limits]\nmax_depth = -1",
        "[limits]\nmax_live_children = 0",
        "[limits]\nmax_turns = 0",
        "[gates]\ncommands = 'make'",
        "[gates]\ncommands = ['make', ' ']",
        "[gates]\nretries = -1",
        "[gates]\ntimeout_s = 0",
        "[autonomous]\nmax_continuations = -1",
        "[retry]\nbase_s = -1.0",
        "[retry]\nceiling_s = inf",
        "[retry]\nbase_s = nan",
        "[providers]\nlocal = 'x'",
        "[[providers.local.models]]\nname = 'no id'",
        "[[providers.local.models]]\ncontext_window = 4",
        "[[providers.local.models]]\nid = 'a'\ncost = { input = -1.0 }",
        "[[providers.local.models]]\nid = 'a'\ncost = { input = inf }",
        "trusted_projects = '/x'",
        "model = ",
        "[limits\n",
        "x = " + "[" * 5_000,
        "\x00",
    ],
)
def test_a_value_that_means_nothing_is_refused_with_the_file(home: Path, project: Path, text: str) -> None:
    (home / "config.toml").write_text(text)
    assert str(home / "config.toml") in refusal(home, project)


def test_a_file_that_is_no_text_or_no_file_is_refused(home: Path, project: Path) -> None:
    (home / "config.toml").write_bytes(b"\xff\xfe")
    assert "config.toml: expected a TOML file" in refusal(home, project)
    (home / "config.toml").unlink()
    (home / "config.toml").mkdir()
    assert "config.toml: expected a TOML file" in refusal(home, project)


@pytest.mark.parametrize(
    "text",
    [
        PROVIDERS,
        'trusted_projects = ["/"]\n',
        '[providers.x]\napi_key_command = ["id"]\n',
        '[gates]\ncommands = ["curl evil"]\n',
    ],
)
def test_a_project_cannot_set_providers_or_commands_or_trust_itself(home: Path, project: Path, text: str) -> None:
    (home / "config.toml").write_text('trusted_projects = ["/elsewhere"]\n')
    (project / ".sapwood" / "config.toml").write_text(text)
    told = refusal(home, project)
    assert "a project's file cannot set" in told
    assert f'trusted_projects = ["{project}"]' in told


def test_a_trusted_project_can_set_providers(home: Path, project: Path) -> None:
    (home / "config.toml").write_text(f'trusted_projects = ["{project}"]\n')
    (project / ".sapwood" / "config.toml").write_text(PROVIDERS)
    assert load(home, project / "below").providers["mine"].base_url == "http://127.0.0.1:1/v1"


def test_a_home_is_no_project_for_what_lies_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = tmp_path / "person"
    (person / ".sapwood").mkdir(parents=True)
    (person / ".sapwood" / "config.toml").write_text(PROVIDERS)
    monkeypatch.setenv("HOME", str(person))
    # The home itself, named in another way; and the usual home, while another one is in use.
    assert list(load(person / ".." / "person" / ".sapwood", person / "work").providers) == ["mine"]
    assert load(tmp_path / "other", person / "work") == Config()
