"""A job whose base is not reviewed gets no credentials of a judge: neither the judge
nor the system under test."""

from __future__ import annotations

from ragstone.judge.llm.sign_in import REQUEST_TOKEN, REQUEST_URL
from ragstone.judge.providers import credential_variables, find_provider, variable
from ragstone.settings.load import SECRET_VARIABLES
from ragstone.settings.settings import MIN_SECRET_CHARACTERS, JudgeSettings, Settings
from ragstone.settings.variables import Environ

_NAMES = frozenset(
    (*SECRET_VARIABLES, *credential_variables(), REQUEST_URL, REQUEST_TOKEN)
)


def without_credentials(
    settings: Settings, environ: Environ
) -> tuple[Settings, Environ]:
    """`settings` and `environ` without any key, other credential, or identity of a
    judge, under whichever name."""
    values = {
        *settings.judge.secrets(),
        *(variable(name, environ) for name in _NAMES),
    } - {""}
    long = [value for value in values if len(value) >= MIN_SECRET_CHARACTERS]
    without = {
        name: value
        for name, value in environ.items()
        if name not in _NAMES
        and value.strip() not in values
        and not any(secret in value for secret in long)
    }
    none = dict.fromkeys(("api_key", "embeddings_api_key", "headers"))
    return settings.model_copy(
        update={"judge": settings.judge.model_copy(update=none)}
    ), without


def asks_a_server(judge: JudgeSettings) -> bool:
    """Whether judging with these settings sends requests anywhere."""
    provider = find_provider(judge.name.partition(":")[0].strip())
    return provider is None or not provider.free
