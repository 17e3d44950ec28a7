"""The service that a judge calls, its address, and the credentials, which are never
shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from msgspec import Struct, field
from pydantic import SecretStr

from ragstone.errors import ConfigError
from ragstone.judge.protocol import ignore_secret
from ragstone.judge.providers import JobIdentity, Provider
from ragstone.judge.untrusted_text import remove_hidden
from ragstone.settings.load import variable_of
from ragstone.settings.settings import MIN_SECRET_CHARACTERS

_MASK = "***"
_MAX_LINE_CHARACTERS = 300
_MAX_MESSAGE_CHARACTERS = 4_000
"""How much of a message is looked at."""
_MAX_NAME_CHARACTERS = 200
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|key|api)-[\w*.\-]{8,}|\bBearer\s+\S+", re.IGNORECASE
)
_HEADER = re.compile(
    r"(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*:\s*(?P<value>[\x21-\x7e][\t\x20-\x7e]*)"
)
KEY_VARIABLE = variable_of("judge.api_key")
EMBEDDINGS_KEY_VARIABLE = variable_of("judge.embeddings_api_key")
_KEY_VARIABLE_BY_ADDRESS = {
    "judge.base_url": KEY_VARIABLE,
    "judge.embeddings_base_url": EMBEDDINGS_KEY_VARIABLE,
}
"""The variable for the key to the address in each setting."""
_SECRET_PARAMETERS = {
    "key",
    "api-key",
    "api_key",
    "apikey",
    "token",
    "access_token",
    "sig",
    "code",
    "subscription-key",
}


class TokenStore:
    """The tokens that the SDKs get for this run. Each new one is passed to
    `tell_secret`, so that it is redacted."""

    def __init__(self, tell_secret: Callable[[str], None] = ignore_secret) -> None:
        self._tell_secret = tell_secret
        self._tokens: dict[str, None] = {}

    def __repr__(self) -> str:
        return "TokenStore(…)"

    def add(self, token: str) -> None:
        if token not in self._tokens:
            self._tokens[token] = None
            self._tell_secret(token)

    def remove_tokens(self, text: str) -> str:
        """`text` with each token masked."""
        for token in self._tokens:
            text = text.replace(token, _MASK)
        return text


class Address(Struct, frozen=True):
    """The address of a service."""

    base_url: str
    query: Mapping[str, str]
    """The query parameters that are sent with every request."""
    endpoint: str
    """The part of the address that may be shown."""
    host: str


class Account(Struct, frozen=True):
    """The provider, address and credentials that a client is made with. No secret shows
    in its repr."""

    provider: Provider
    model: str
    address: Address
    key: SecretStr | None
    key_variable: str
    """The variable that has the key, or could have it, for messages."""
    timeout_s: float
    connections: int
    """How many calls may be in flight."""
    variables: Mapping[str, SecretStr] = {}
    """The variables of the environment that the SDK signs in with."""
    job_identity: JobIdentity | None = None
    """The identity that the SDK exchanges for tokens; None if it doesn't. With one,
    there is no key."""
    tokens: TokenStore = field(default_factory=TokenStore)
    headers: Mapping[str, SecretStr] = {}
    """The user's own headers."""
    setting: str = "judge.name"
    """The setting that names the model."""

    @property
    def service(self) -> str:
        return self.provider.name

    def required_variable(self, name: str) -> str:
        """The value of one of the `variables` that the provider needs."""
        return self.variables[name].get_secret_value()

    def variable(self, name: str) -> str | None:
        """The value of one of the `variables`; None if it is not set."""
        value = self.variables.get(name)
        return value.get_secret_value() if value else None

    def remove_secrets(self, text: str) -> str:
        """The text of a reply with the secrets masked, which a server may repeat.

        Only those that can't be part of a word: the key `x` of a local server would
        turn "fixed" into "fi***ed".
        """
        return self._mask(text, looks_random)

    def reported_name(self, value: object) -> str | None:
        """A name that the provider reports, without secrets; None if it is not
        valid."""
        is_valid = (
            isinstance(value, str)
            and 0 < len(value) <= _MAX_NAME_CHARACTERS
            and value.isprintable()
        )
        return self.remove_secrets(str(value)) if is_valid else None

    def safe_line(self, message: object) -> str:
        """A provider's message as one short line, without secrets or anything like a
        key."""
        text = remove_hidden(str(message)[:_MAX_MESSAGE_CHARACTERS])
        line = self._mask(
            " ".join(text.split()),
            lambda secret: len(secret) >= MIN_SECRET_CHARACTERS,
        )
        line = _KEY_LIKE.sub(_MASK, line)
        if len(line) > _MAX_LINE_CHARACTERS:
            line = line[: _MAX_LINE_CHARACTERS - 3] + "..."
        return line

    def _mask(self, text: str, is_secret: Callable[[str], bool]) -> str:
        """`text` with the key, the headers, and the variables masked, as far as they
        are secrets by `is_secret`, and with all tokens masked."""
        values = [value.get_secret_value() for value in self.headers.values()]
        # Also without a scheme, such as Bearer.
        values += [value.split()[-1] for value in values]
        if self.key is not None:
            values.append(self.key.get_secret_value())
        secrets = map(self.variable, self.provider.secret_variables)
        values += [secret for secret in secrets if secret is not None]
        # Longest first, so that a secret that contains another is masked as a whole.
        for secret in sorted(filter(is_secret, values), key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return self.tokens.remove_tokens(text)


def looks_random(secret: str) -> bool:
    """Whether a key or token is too long, or too unlike a word, to be part of a text by
    chance."""
    has_digits_and_letters = re.search(r"\d", secret) and re.search(r"[^\W\d_]", secret)
    min_length = 8 if has_digits_and_letters else 24
    return (
        len(secret) >= min_length
        and len(set(secret)) >= 6
        and not re.search(r"\s", secret)
    )


def parse_headers(lines: SecretStr | None) -> dict[str, SecretStr]:
    """The headers in lines of `Name: value`. Raises ConfigError for any other line,
    without its text."""
    headers: dict[str, SecretStr] = {}
    text = lines.get_secret_value() if lines else ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        header = _HEADER.fullmatch(line.strip())
        if header is None:
            raise ConfigError(
                f"line {number} is not a header.",
                where="RAGSTONE_JUDGE_HEADERS",
                hint="Write one header per line, as 'Name: value', in ASCII.",
            )
        headers[header["name"]] = SecretStr(header["value"])
    return headers


def parse_address(url: str, setting: str = "judge.base_url") -> Address:
    """The address in `url`, which is the value of `setting`. Raises ConfigError if it
    is not valid or contains a secret."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"'{setting}' is not an http or https address.",
            where=setting,
            hint="Write one such as http://localhost:11434/v1.",
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if (
        parts.username
        or parts.password
        or any(name.lower() in _SECRET_PARAMETERS for name in query)
    ):
        raise ConfigError(
            f"'{setting}' contains a credential.",
            where=setting,
            hint=f"Remove it, and set the environment variable {_KEY_VARIABLE_BY_ADDRESS[setting]}.",
        )
    path = parts.path.rstrip("/")
    base_url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    endpoint = base_url
    if "api-version" in query:
        endpoint += f"?api-version={query['api-version']}"
    return Address(
        base_url=base_url,
        query=query,
        endpoint=endpoint,
        host=parts.hostname,
    )
