"""Which service a judge calls, where, and with which credential. The credential is
never shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from msgspec import Struct, field
from pydantic import SecretStr

from ragstone.errors import ConfigError
from ragstone.judge.protocol import ignore_secret
from ragstone.judge.providers import JobIdentity, Provider
from ragstone.judge.untrusted_text import cleaned
from ragstone.settings.load import variable_of
from ragstone.settings.settings import MIN_SECRET_CHARACTERS

_KEYLIKE = re.compile(r"\b(?:sk|pk|key|api)-[\w*.\-]{8,}|\bBearer\s+\S+", re.IGNORECASE)
_HEADER = re.compile(
    r"(?P<name>[A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*:\s*(?P<value>[\x21-\x7e][\t\x20-\x7e]*)"
)
KEY_VARIABLE = variable_of("judge.api_key")
EMBEDDINGS_KEY_VARIABLE = variable_of("judge.embeddings_api_key")
_KEY_OF_ADDRESS = {
    "judge.base_url": KEY_VARIABLE,
    "judge.embeddings_base_url": EMBEDDINGS_KEY_VARIABLE,
}
_SECRET_QUERY = {
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
    """The tokens that the SDKs get for this run. Each is passed to `tell` (which
    redacts and masks it)."""

    def __init__(self, tell: Callable[[str], None] = ignore_secret) -> None:
        self._tell = tell
        self._tokens: dict[str, None] = {}

    def __repr__(self) -> str:
        return "TokenStore(…)"

    def add(self, token: str) -> None:
        if token not in self._tokens:
            self._tokens[token] = None
            self._tell(token)

    def scrubbed(self, text: str) -> str:
        """`text` without any token of this run."""
        for token in self._tokens:
            text = text.replace(token, "***")
        return text


class Address(Struct, frozen=True):
    """Where a judge listens. `query` is sent with every request; `endpoint` is the part
    that may be shown."""

    base_url: str
    query: Mapping[str, str]
    endpoint: str
    host: str


class Account(Struct, frozen=True):
    """The provider and credential that clients use, and that messages name. The key
    never shows in a repr.

    `variables` are those of the environment that the SDK signs in with. With a
    `job_identity` there is no key: the SDK exchanges it for tokens.
    """

    provider: Provider
    model: str
    address: Address
    key: SecretStr | None
    key_variable: str
    timeout_s: float
    connections: int
    variables: Mapping[str, SecretStr] = {}
    job_identity: JobIdentity | None = None
    tokens: TokenStore = field(default_factory=TokenStore)
    headers: Mapping[str, SecretStr] = {}
    setting: str = "judge.name"
    """The setting that names the model."""

    @property
    def service(self) -> str:
        return self.provider.name

    def needed(self, name: str) -> str:
        """The value of one of the `variables` that is set in any case."""
        return self.variables[name].get_secret_value()

    def variable(self, name: str) -> str | None:
        """The value of one of the `variables`; None if it is not set."""
        value = self.variables.get(name)
        return value.get_secret_value() if value else None

    def echo(self, text: str) -> str:
        """`text` of a reply without the secrets that a server may echo.

        Only those that can't be words of the reply: the key `x` of a local server would
        turn "fixed" into "fi***ed".
        """
        return self._without(text, random_looking)

    def name(self, value: object) -> str | None:
        """A name reported by the provider, without secrets; None for anything
        invalid."""
        valid = isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()
        return self.echo(str(value)) if valid else None

    def scrubbed(self, text: object) -> str:
        """A provider's message as one line of at most 300 characters, without the key
        or anything like one."""
        line = self._without(
            " ".join(cleaned(str(text)[:4000]).split()),
            lambda secret: len(secret) >= MIN_SECRET_CHARACTERS,
        )
        line = _KEYLIKE.sub("***", line)
        return line if len(line) <= 300 else line[:297] + "..."

    def _without(self, text: str, counts: Callable[[str], bool]) -> str:
        """`text` without key, headers and tokens, as far as each `counts` as a
        secret."""
        values = [value.get_secret_value() for value in self.headers.values()]
        values += [
            value.split()[-1] for value in values
        ]  # a scheme such as Bearer may be left out
        if self.key is not None:
            values.append(self.key.get_secret_value())
        secrets = map(self.variable, self.provider.secret_variables)
        values += [secret for secret in secrets if secret is not None]
        # Longest first, so that a secret that contains another is replaced whole.
        for secret in sorted(filter(counts, values), key=len, reverse=True):
            text = text.replace(secret, "***")
        return self.tokens.scrubbed(text)


def random_looking(secret: str) -> bool:
    """Whether a key or token is too long, or too unlike a word, to stand in a text by
    chance."""
    mixed = re.search(r"\d", secret) and re.search(r"[^\W\d_]", secret)
    return (
        len(set(secret)) >= 6
        and not re.search(r"\s", secret)
        and len(secret) >= (8 if mixed else 24)
    )


def parse_headers(lines: SecretStr | None) -> dict[str, SecretStr]:
    """The headers in lines of `Name: value`. Raises ConfigError, which never shows a
    value."""
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
    """The address in `url`. Raises ConfigError if it is invalid or contains a
    secret."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"'{setting}' is not an http or https address.",
            where=setting,
            hint="For example: http://localhost:11434/v1.",
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if (
        parts.username
        or parts.password
        or any(name.lower() in _SECRET_QUERY for name in query)
    ):
        raise ConfigError(
            f"'{setting}' contains a credential.",
            where=setting,
            hint=f"Remove it, and set the environment variable {_KEY_OF_ADDRESS[setting]}.",
        )
    path = parts.path.rstrip("/")
    base = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    shown = base + (
        f"?api-version={query['api-version']}" if "api-version" in query else ""
    )
    return Address(
        base_url=base,
        query=query,
        endpoint=shown,
        host=parts.hostname,
    )
