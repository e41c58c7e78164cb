"""Which model a name means, and how it is called."""

import difflib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from actors.protocol.model import Model, ModelInfo
from orchestrator.engine.config import Config, CostConfig, ModelConfig, ProviderConfig
from orchestrator.engine.errors import WrongUsage
from orchestrator.providers.scripted import BadScript, Script, ScriptedModel
from store.usage import Price, micro_usd

if TYPE_CHECKING:
    from orchestrator.providers.http import Http

SCRIPTED = "scripted"
DISCOVERY_S = 5.0
_KEY_COMMAND_S = 30.0
_LEVELS = frozenset({"off", "minimal", "low", "medium", "high", "xhigh"})


@attrs.frozen
class Known:
    """A provider that needs no configuration: its address and the variables that change it."""

    base_url: str
    key_env: str | None
    base_url_env: str | None = None


KNOWN: dict[str, Known] = {
    "openai": Known("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
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
    config: ProviderConfig
    base_url: str
    key: str | None = attrs.field(repr=False)


@attrs.define
class Models:
    """Models by name (`provider/id`), made when they are first asked for. `notice(session_id, text)`: a provider's oddity."""

    config: Config
    environ: Mapping[str, str]
    cwd: Path
    api_key: str | None = attrs.field(default=None, repr=False)
    notice: Callable[[str, str], None] = lambda session_id, text: None
    _made: dict[str, tuple[Model, ModelInfo]] = attrs.field(factory=dict)
    _http: "Http | None" = None

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
        name = named or (None if has_stored else self.config.model)
        if name is not None:
            name, _, level = name.rpartition(":") if name.rpartition(":")[2] in _LEVELS else (name, "", "")
            thinking = thinking or level or None
            if provider is not None:
                name = f"{provider}/{name}"
        elif not has_stored:
            name = self._discovered(provider)
        return name, thinking

    def nothing_named(self) -> str:
        """What to say when no model was named anywhere."""
        keys = [known.key_env for known in KNOWN.values() if known.key_env]
        there = [key for key in keys if self.environ.get(key)]
        hint = f"{there[0]} is set; name one of its models" if there else f"no key is set ({', '.join(keys)})"
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

    async def aclose(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()

    def _script(self, model: str) -> tuple[Model, ModelInfo]:
        file = self.cwd / model
        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise WrongUsage(f"{SCRIPTED}/{model}: expected a script at {file}: {error}") from error
        self.add_script(model, text)
        return self._made[f"{SCRIPTED}/{model}"]

    def _remote(self, name: str) -> tuple[Model, ModelInfo]:
        provider, model = self._split(name)
        reached = self._reached(provider)
        if reached.config.api != "openai-completions":
            raise WrongUsage(f'provider {provider}: expected api = "openai-completions", found {reached.config.api!r}')
        # Imported where the first remote model is made: a scripted run needs no HTTP.
        from orchestrator.providers.http import Http
        from orchestrator.providers.openai_completions import OpenAICompletions

        self._http = self._http or Http()
        port = OpenAICompletions(
            self._http,
            reached.base_url,
            reached.key,
            reached.config.headers,
            lambda session_id, text: self.notice(session_id, text),
        )
        known = next((one for one in reached.config.models if one.id == model), ModelConfig(model))
        price = None if known.cost is None else _price(known.cost)
        info = ModelInfo(provider, model, reached.config.api, price, known.context_window, known.max_output)
        return port, info

    def _split(self, name: str) -> tuple[str, str]:
        provider, slash, model = name.partition("/")
        providers = {*self.config.providers, *KNOWN}
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
        config = self.config.providers.get(provider, ProviderConfig())
        known = KNOWN.get(provider, Known(config.base_url, None))
        own_url = self.environ.get(known.base_url_env) if known.base_url_env else None
        base_url = own_url or config.base_url or known.base_url
        if not base_url.startswith(("http://", "https://")):
            raise WrongUsage(f"provider {provider}: expected a base_url that begins with http:// or https://")
        key = self._key(provider, config, known)
        if key is None and known.key_env is not None and base_url == known.base_url:
            raise WrongUsage(f"no key for {provider}: looked for {known.key_env}, --api-key and [providers.{provider}]")
        return Reached(provider, config, base_url, key)

    def _key(self, provider: str, config: ProviderConfig, known: Known) -> str | None:
        if self.api_key:
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
            # Its output may hold the key, so it is not shown.
            raise WrongUsage(f"provider {provider}: api_key_command failed ({type(error).__name__})") from None
        return done.stdout.strip() or None

    def _discovered(self, provider: str | None) -> str | None:
        """The first model that a server at OPENAI_BASE_URL lists: such servers often have one only."""
        variable = self.environ.get("OPENAI_MODEL")
        if variable:
            return f"openai/{variable}"
        if self._openai_url() is None or provider not in {None, "openai"}:
            return None
        reached = self._reached("openai")
        headers = {"Authorization": f"Bearer {reached.key}"} if reached.key else {}
        request = urllib.request.Request(f"{reached.base_url.rstrip('/')}/models", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=DISCOVERY_S) as answer:
                listed = json.loads(answer.read(1 << 20))
            return f"openai/{listed['data'][0]['id']}"
        except (OSError, ValueError, LookupError, TypeError, urllib.error.URLError):
            return None


def _price(cost: CostConfig) -> Price:
    return Price(micro_usd(cost.input), micro_usd(cost.output), micro_usd(cost.cache_read), micro_usd(cost.cache_write))
