"""The web config file, in the format of the Prometheus exporter-toolkit.

``tls_server_config``, ``http_server_config`` and ``basic_auth_users`` are read; keys of the
toolkit that can't be honoured here are refused, never ignored. Paths are taken from the file's
own folder. The file is looked at again for each request: a bad one closes the page, it never
opens it.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Final, Literal, Self

import structlog
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.web_address import LISTEN_FLAG, OPEN_FLAG, Address

_HASH: Final = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_UNSUPPORTED: Final = (
    "cert", "key", "client_ca", "client_allowed_sans", "cipher_suites",
    "prefer_server_cipher_suites", "curve_preferences", "rate_limit",
)  # fmt: skip
"""Keys that the toolkit knows and we can't honour."""


def _is_bcrypt(secret: SecretStr) -> SecretStr:
    if not _HASH.fullmatch(secret.get_secret_value()):
        raise ValueError("is no bcrypt hash; make one with: htpasswd -nBC 10 USER")
    return secret


def _is_one_line(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("may hold printable ASCII only")
    return text


HeaderText = Annotated[str, AfterValidator(_is_one_line)]
UserName = Annotated[str, Field(pattern=r"^[^:]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Tls(_Strict):
    """How the server shows itself, and whom it lets in."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.client_ca_file is None) != (self.client_auth_type == "NoClientCert"):
            raise ValueError(
                "client_ca_file and a client_auth_type other than NoClientCert need each other"
            )
        if self.min_version > self.max_version:
            raise ValueError("min_version is above max_version")
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the settings rest on."""
        files = (self.cert_file, self.key_file, self.client_ca_file)
        return tuple(file for file in files if file is not None)


class Headers(_Strict):
    """Response headers that a user may set; an empty one is the default."""

    content_security_policy: HeaderText = Field(default="", alias="Content-Security-Policy")
    frame_options: Literal["", "deny", "sameorigin"] = Field(default="", alias="X-Frame-Options")
    content_type_options: Literal["", "nosniff"] = Field(default="", alias="X-Content-Type-Options")
    xss_protection: HeaderText = Field(default="", alias="X-XSS-Protection")
    strict_transport_security: HeaderText = Field(default="", alias="Strict-Transport-Security")


class Http(_Strict):
    """Settings of the HTTP server."""

    http2: bool = True
    """Accepted for files that several exporters share; we speak HTTP/1.1."""
    headers: Headers = Headers()


class WebConfig(_Strict):
    """One whole web config; an empty one is plain HTTP without users."""

    tls: Tls | None = Field(default=None, alias="tls_server_config")
    http: Http = Field(default=Http(), alias="http_server_config")
    users: dict[UserName, Annotated[SecretStr, AfterValidator(_is_bcrypt)]] = Field(
        default={}, alias="basic_auth_users"
    )

    @property
    def headers(self) -> dict[str, str]:
        """The response headers that are set, by name."""
        chosen: dict[str, str] = self.http.headers.model_dump(by_alias=True)
        return {name: text for name, text in chosen.items() if text}

    @property
    def authenticates(self) -> bool:
        """True if nobody gets in without a password or a certificate."""
        certified = self.tls is not None and self.tls.client_auth_type.startswith("Require")
        return bool(self.users) or certified


def check_bind(address: Address, config: WebConfig, *, allow: bool) -> None:
    """Raise ``ConfigError`` if other machines could read the pages without logging in."""
    if address.is_loopback or config.authenticates or allow:
        return
    problem = (
        f"other machines can reach {address} and nobody has to log in; listen on 127.0.0.1, or "
        "name basic_auth_users or a client_ca_file in --web.config.file, or, where the network "
        f"itself is closed (a container), pass {OPEN_FLAG}"
    )
    raise ConfigError(LISTEN_FLAG, (problem,))


def load_web_config(path: Path) -> WebConfig:
    """Return a file's settings. Raises ``ConfigError`` with every problem, never with a value."""
    try:
        text = path.read_text(encoding="utf-8")
        document = _parse(text)
        return WebConfig.model_validate(_anchor(document, path.absolute().parent))
    except OSError as error:
        raise ConfigError(str(path), (f"can't be read: {error.strerror}",)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), ("is not UTF-8 text",)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or "is not YAML"
        raise ConfigError(str(path), (f"{where}{reason}",)) from None
    except ValidationError as error:
        raise ConfigError(str(path), tuple(_say(error))) from None


def _parse(text: str) -> Any:
    for node in _mappings(yaml.compose(text, Loader=yaml.SafeLoader)):
        names = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in names[:number]:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
    document = yaml.safe_load(text)
    return {} if document is None else document


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)


def _anchor(document: Any, folder: Path) -> Any:
    """Return the document with the paths of its TLS files taken from the folder."""
    tls = document.get("tls_server_config") if isinstance(document, dict) else None
    if not isinstance(tls, dict):
        return document
    anchored = {
        key: str(folder / value) if str(key).endswith("_file") and isinstance(value, str) else value
        for key, value in tls.items()
    }
    return {**document, "tls_server_config": anchored}


def _say(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        key = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            known = problem["loc"][-1] in _UNSUPPORTED
            message = (
                "is a key of exporter-toolkit that is not supported here; remove it"
                if known
                else "is no key we know; check its spelling"
            )
        elif problem["type"] == "missing":
            message = "is missing; add it"
        yield f"{key}: {message}" if key else message


Stamp = tuple[int, int, int] | None
"""What tells that a file has changed; None while there is none."""


def stamp_of(path: Path) -> Stamp:
    """Return the file's stamp."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def accept_any(config: WebConfig) -> None:
    """Accept every config: the check where nothing else is asked for."""


class WebConfigFile:
    """The settings as the file says now; ``check`` may refuse them, at the start and later."""

    def __init__(self, path: Path | None, check: Callable[[WebConfig], None] = accept_any) -> None:
        """Read the file, where there is one. Raises ``ConfigError``."""
        self._path = path
        self._check = check
        self._lock = Lock()
        self._stamp: Stamp = stamp_of(path) if path else None
        self._state: WebConfig | ConfigError = self._load()

    def current(self) -> WebConfig:
        """Return the present settings. Raises ``ConfigError`` while the file is bad."""
        if self._path is not None and stamp_of(self._path) != self._stamp:
            with self._lock:
                self._reload(self._path)
        if isinstance(self._state, ConfigError):
            raise self._state
        return self._state

    def _load(self) -> WebConfig:
        config = WebConfig() if self._path is None else load_web_config(self._path)
        self._check(config)
        return config

    def _reload(self, path: Path) -> None:
        stamp = stamp_of(path)
        if stamp == self._stamp:
            return
        try:
            self._state = self._load()
        except ConfigError as error:
            structlog.get_logger().error("web config refused", problems=error.problems)
            self._state = error
        # Taken before the read, so that a file that was still being written is read again.
        self._stamp = stamp
