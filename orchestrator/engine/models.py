"""Which model a name means, and how it is called."""

import difflib
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import msgspec
import trio

from actors.protocol.model import Model, ModelFailure, ModelInfo
from actors.protocol.tools import ModelRow
from orchestrator.engine.catalogue import Catalogue
from orchestrator.engine.config import Config, CostConfig, ModelConfig, ProviderConfig
from orchestrator.engine.errors import NoKey, WrongUsage
from orchestrator.providers.post import HttpLimits
from orchestrator.providers.quirks import quirks_of
from orchestrator.providers.scripted import BadScript, Script, ScriptedModel
from store.usage import Price, micro_usd

if TYPE_CHECKING:
    from orchestrator.providers.http import Http

SCRIPTED = "scripted"
MAX_FOUND = 50
DISCOVERY_S = 5.0
DISCOVERY_BYTES = 1 << 20
_KEY_COMMAND_S = 30.0
_LEVELS = frozenset({"off", "minimal", "low", "medium", "high", "xhigh"})


@attrs.frozen
class Known:
    """A provider that needs no configuration: its address and the variables that change it."""

    base_url: str
    key_env: str | None
    base_url_env: str | None = None
    api: str = "openai-completions"


KNOWN: dict[str, Known] = {
    "openai": Known("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": Known("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic-messages"),
    "openrouter": Known("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Known("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "deepseek": Known("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "mistral": Known("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "xai": Known("https://api.x.ai/v1", "XAI_API_KEY"),
    "ollama": Known("http://127.0.0.1:11434/v1", None, "OLLAMA_BASE_URL"),
}


@attrs.frozen
class Reached:
    """A provider with all that a call needs."""

    name: str
    api: str
    config: ProviderConfig
    base_url: str
    key: str | None = attrs.field(repr=False)


@attrs.define
class Models:
    """Models by name (`provider/id`), made when they are first asked for. `notice(session_id, text)`: a provider's oddity.

    `api_key` is for the provider that is reached first, the root's: no other one may see it.
    """

    config: Config
    environ: Mapping[str, str]
    cwd: Path
    api_key: str | None = attrs.field(default=None, repr=False)
    notice: Callable[[str, str], None] = lambda session_id, text: None
    _made: dict[str, tuple[Model, ModelInfo]] = attrs.field(factory=dict)
    _providers: dict[str, Reached] = attrs.field(factory=dict)
    _catalogue: Catalogue = attrs.field(factory=Catalogue)
    _https: "dict[HttpLimits, Http]" = attrs.field(factory=dict)
    _why_none_found: str = ""

    def add_script(self, name: str, text: str) -> None:
        """A scripted model under `scripted/name`. Raises WrongUsage."""
        try:
            script = Script.parse(text, name)
        except BadScript as error:
            raise WrongUsage(str(error)) from error
        self._made[f"{SCRIPTED}/{name}"] = ScriptedModel(script), ModelInfo(SCRIPTED, name, SCRIPTED, script.price)

    def chosen(
        self, named: str | None, provider: str | None, thinking: str | None, *, has_stored: bool
    ) -> tuple[str | None, str | None]:
        """(model, thinking level) out of what was named where. None: the stored session's. Raises WrongUsage."""
        name = named if named is not None else None if has_stored else self.config.model
        if name is not None:
            name, _, level = name.rpartition(":") if name.rpartition(":")[2] in _LEVELS else (name, "", "")
            thinking = thinking or level or None
            if provider is not None and not name.startswith(f"{provider}/"):
                name = f"{provider}/{name}"
        elif not has_stored:
            name = self._discovered(provider)
        return name, thinking

    def nothing_named(self) -> str:
        """What to say when no model was named anywhere."""
        keys = [known.key_env for known in KNOWN.values() if known.key_env]
        there = [key for key in keys if self.environ.get(key)]
        hint = f"{there[0]} is set; name one of its models" if there else f"no key is set ({', '.join(keys)})"
        hint = self._why_none_found or hint
        return (
            "no model is named. Looked for -m PROVIDER/ID, SAPWOOD_MODEL, `model` in the configuration, and OPENAI_BASE_URL "
            f"with a server that lists its models; {hint}. `sapwood demo` needs neither model nor key"
        )

    def get(self, name: str) -> tuple[Model, ModelInfo]:
        """The model of this name. Raises WrongUsage for one that is not known, and where its key is missing."""
        if name not in self._made:
            provider, _, model = name.partition("/")
            self._made[name] = self._script(model) if provider == SCRIPTED else self._remote(name)
        return self._made[name]

    def search(self, query: str) -> tuple[ModelRow, ...]:
        """Models that a child can be given: those in use, those configured, and those known of providers with a key."""
        words = query.lower().split()
        rows = {
            name: ModelRow(name, info.provider, info.id, info.context_window or None)
            for name, (_, info) in self._made.items()
        }
        for provider, config in self.config.providers.items():
            for model in config.models:
                name = f"{provider}/{model.id}"
                rows.setdefault(name, ModelRow(name, provider, model.id, model.context_window or None))
        for provider, row in self._catalogue.search(query):
            key = KNOWN[provider].key_env if provider in KNOWN else None
            if key is not None and self.environ.get(key):
                name = f"{provider}/{row.id}"
                rows.setdefault(name, ModelRow(name, provider, row.id, row.window or None))
        return tuple(row for name, row in sorted(rows.items()) if all(word in name.lower() for word in words))[
            :MAX_FOUND
        ]

    async def aclose(self) -> None:
        """Close all connections."""
        for http in self._https.values():
            await http.aclose()

    def _script(self, model: str) -> tuple[Model, ModelInfo]:
        file = self.cwd / model
        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise WrongUsage(f"{SCRIPTED}/{model}: {file} cannot be read: {why}") from error
        self.add_script(model, text)
        return self._made[f"{SCRIPTED}/{model}"]

    def _remote(self, name: str) -> tuple[Model, ModelInfo]:
        provider, model = self._split(name)
        reached = self._reached(provider)
        # Imported where the first remote model is made: a scripted run needs no HTTP.
        from orchestrator.providers.http import Http
        from orchestrator.providers.ports import PORTS, most_output

        if reached.api not in PORTS:
            raise WrongUsage(
                f"provider {provider}: expected api to be one of {', '.join(PORTS)}, found {reached.api!r}"
            )
        limits = reached.config.limits
        port = PORTS[reached.api](
            self._https.setdefault(limits, Http(limits)),
            reached.base_url,
            reached.key,
            reached.config.headers,
            lambda session_id, text: self.notice(session_id, text),
            reached.config.service_tier,
        )
        return port, self._info(reached, model, most_output(reached.api, model))

    def _info(self, reached: Reached, model: str, usual_output: int) -> ModelInfo:
        """What is configured for the model, else what the catalogue knows. Another server's prices are its own."""
        own = next((one for one in reached.config.models if one.id == model), ModelConfig(model))
        is_usual = reached.name in KNOWN and reached.base_url == KNOWN[reached.name].base_url
        row = self._catalogue.find(reached.name, model) if is_usual else None
        price = _price(own.cost) if own.cost is not None else row.price if row is not None else None
        window = own.context_window or (row.window if row is not None else 0)
        return ModelInfo(reached.name, model, reached.api, price, window, own.max_output or usual_output)

    def _split(self, name: str) -> tuple[str, str]:
        provider, slash, model = name.partition("/")
        providers = {*self.config.providers, *KNOWN}
        if not name or (slash and not model):
            raise WrongUsage(f"expected a model as PROVIDER/ID, found {name!r}")
        if slash and provider in providers:
            return provider, model
        if not slash or self._openai_url() is not None:
            return "openai", name
        near = difflib.get_close_matches(provider, sorted(providers), 1)
        hint = f"did you mean {near[0]}/{model}?" if near else f"known: {SCRIPTED}, {', '.join(sorted(providers))}"
        raise WrongUsage(f"no provider is named {provider!r}: {hint} A [providers.{provider}] table adds one")

    def _openai_url(self) -> str | None:
        """The address that OPENAI_BASE_URL gives, if it is set: such a server may name its models as it likes."""
        return self.environ.get("OPENAI_BASE_URL") or None

    def _reached(self, provider: str) -> Reached:
        """How the provider is reached; its key is asked for once. Raises WrongUsage."""
        if provider in self._providers:
            return self._providers[provider]
        config = self.config.providers.get(provider, ProviderConfig())
        known = KNOWN.get(provider, Known(config.base_url, None))
        own_url = self.environ.get(known.base_url_env) if known.base_url_env else None
        base_url = own_url or config.base_url or known.base_url
        if not base_url.startswith(("http://", "https://")):
            raise WrongUsage(f"provider {provider}: expected a base_url that begins with http:// or https://")
        key = self._key(provider, config, known)
        if key is None and (_names_key(config) or (known.key_env is not None and base_url == known.base_url)):
            variables = dict.fromkeys(filter(None, (config.api_key_env, known.key_env)))
            raise NoKey(
                f"no key for {provider}: looked for {', '.join([*variables, '--api-key'])} and [providers.{provider}]"
            )
        return self._providers.setdefault(provider, Reached(provider, config.api or known.api, config, base_url, key))

    def _key(self, provider: str, config: ProviderConfig, known: Known) -> str | None:
        if self.api_key and not self._providers:
            return self.api_key
        for variable in (config.api_key_env, known.key_env):
            if variable and self.environ.get(variable):
                return self.environ[variable]
        if config.api_key_command is None:
            return None
        try:
            done = subprocess.run(
                config.api_key_command, capture_output=True, timeout=_KEY_COMMAND_S, check=True, text=True
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            # Its output, and the command, may hold the key, so neither is shown.
            status = getattr(error, "returncode", None)
            how = f"ended with exit status {status}" if status is not None else f"failed ({type(error).__name__})"
            raise WrongUsage(f"provider {provider}: api_key_command {how}; run it by hand to see why") from None
        return done.stdout.strip() or None

    def _discovered(self, provider: str | None) -> str | None:
        """OPENAI_MODEL, or the first model that a server at OPENAI_BASE_URL lists: such servers often have one only."""
        if provider not in {None, "openai"}:
            return None
        if variable := self.environ.get("OPENAI_MODEL"):
            return f"openai/{variable}"
        if self._openai_url() is None:
            return None
        from orchestrator.providers.http import Http, fetched
        from orchestrator.providers.remote import Remote

        reached = self._reached("openai")
        remote = Remote(Http(), reached.base_url, reached.key, reached.config.headers)
        get = remote.post("/models", b"", quirks_of(reached.base_url, "openai").key_header)
        answer = trio.run(fetched, get, DISCOVERY_S, DISCOVERY_BYTES)
        if isinstance(answer, ModelFailure):
            self._why_none_found = f"it was asked in vain: {answer.message}"
            return None
        try:
            return f"openai/{msgspec.json.decode(answer, type=_Listed).data[0].id}"
        except (msgspec.DecodeError, UnicodeDecodeError, LookupError):
            self._why_none_found = f"{get.place} listed none"
            return None


class _ListedModel(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    data: tuple[_ListedModel, ...]


def _names_key(config: ProviderConfig) -> bool:
    return config.api_key_env is not None or config.api_key_command is not None


def _price(cost: CostConfig) -> Price:
    return Price(micro_usd(cost.input), micro_usd(cost.output), micro_usd(cost.cache_read), micro_usd(cost.cache_write))
