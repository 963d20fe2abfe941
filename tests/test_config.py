"""The config file: what it may say, what is said of a wrong one, and that secrets stay secret."""

import re
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.config_stores import SqlLedgerStore
from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.names import Role

LEDGER = "stores:\n  ledger: {type: sql, url: 'sqlite:///stack.db', shape: increments}\n"

WHOLE = """
pools:
  paid:     {role: paid, lease_cap: 2}
  overflow: {role: overflow}
stores:
  gateway: {type: sql, url: "sqlite:///stack.db", relation: tasks}
  leases:  {type: sql, url: "sqlite:///stack.db", relation: leases}
  ledger:  {type: sql, url: "sqlite:///stack.db", relation: ledger, shape: increments}
  queue:   {type: sql, url: "sqlite:///stack.db", relation: queue}
"""
"""The whole config of the contract, section 5."""


def load(folder: Path, text: str, **environ: str) -> Config:
    """Return the config of a text, written as ``orphanwatch.yml``."""
    file = folder / "orphanwatch.yml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environ)


def complaint(folder: Path, text: str, **environ: str) -> str:
    """Return what is said of a wrong config, the folder left out."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, **environ)
    return str(caught.value).replace(f"{folder}/", "")


def ledger_with(settings: str) -> str:
    """Return a config whose ledger says a little more."""
    return LEDGER.replace("shape", f"{settings}, shape")


def test_the_contracts_config_is_a_whole_one(tmp_path: Path) -> None:
    """A config needs few lines; the rest are the contract's defaults."""
    config = load(tmp_path, WHOLE)

    assert config.pools["paid"].lease_cap == 2
    assert config.pools["overflow"].role is Role.OVERFLOW
    assert config.pool_names == ("overflow", "paid", "other")
    assert config.grace_of("paid") == config.grace_of("other") == 1_000_000
    assert config.delta_window == 60_000_000
    assert config.baseline_window == 300_000_000
    assert config.horizon == 3_600_000_000
    assert config.clock_skew_allowance == 0
    assert config.refresh_interval == 5_000_000
    assert config.scrape_interval == 15_000_000
    assert config.reopen_hold == 300_000_000
    assert config.replica_labels == ("instance", "pod", "container", "endpoint", "node")
    assert config.grace_window == 7 * 86_400_000_000
    assert (config.grace_quantile, config.grace_margin) == (0.99, 1.5)
    assert config.thresholds.calm_depth_ratio == 0.5
    assert config.thresholds.flat_ratio == 1.5
    assert config.rise_ratio == 1.1
    assert config.lag == 0
    assert config.stale_after == 30_000_000
    stores = config.stores
    assert stores.leases is not None
    assert stores.leases.lease_ttl == 60_000_000
    assert stores.gateway is not None
    assert (stores.gateway.deadline, stores.gateway.rows) == ("hard", "live")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "", "is no mapping; it needs at least pools and stores", id="an empty file"
        ),
        pytest.param("[" * 5000, "nests too deeply", id="YAML without a bottom"),
        pytest.param(
            "a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
            + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 11)),
            "its aliases make it larger than any configuration",
            id="a few lines that stand for billions of values",
        ),
        pytest.param(
            "- a\n", "is no mapping; it needs at least pools and stores", id="a list"
        ),
        pytest.param(
            "pools: {}\n",
            "stores: is missing; name at least one of gateway, leases, ledger, queue",
            id="no stores",
        ),
        pytest.param(
            LEDGER + "delta_windw: 60s\n",
            "delta_windw: is no key we know; check its spelling",
            id="an unknown key",
        ),
        pytest.param(
            "stores:\n  gatway: {type: sql, url: 'sqlite:///stack.db'}\n",
            "stores.gatway: is no key we know; check its spelling",
            id="an unknown store",
        ),
        pytest.param(
            ledger_with("lagg: 5s"),
            "stores.ledger.lagg: is no key we know; check its spelling",
            id="an unknown key of a store",
        ),
        pytest.param(
            LEDGER + "grace: 2s\n",
            "grace: write {file: PATH} of a measured grace; a number of your own is grace_seconds",
            id="an unknown key is named as it was written",
        ),
        pytest.param(
            ledger_with("columns: {tokns: n}"),
            "stores.ledger.columns.tokns: is no key we know; check its spelling",
            id="an unknown column under columns",
        ),
        pytest.param(
            LEDGER + "horizon: 1h\nhorizon: 2h\n",
            "line 4: the key 'horizon' stands twice",
            id="a key twice",
        ),
        pytest.param(
            "stores:\n  ledger:\n    type: sql\n    type: sql\n",
            "line 4: the key 'type' stands twice",
            id="a key twice further in",
        ),
        pytest.param(
            LEDGER + "delta_window: 30s\n",
            "delta_window 30s is shorter than 4 scrapes of 15s; "
            "raise it to at least 1m, or lower scrape_interval",
            id="a delta window under four scrapes",
        ),
        pytest.param(
            LEDGER + "scrape_interval: 20s\n",
            "delta_window 1m is shorter than 4 scrapes of 20s; "
            "raise it to at least 1m20s, or lower scrape_interval",
            id="a scrape interval above a quarter of the delta window",
        ),
        pytest.param(
            LEDGER + "horizon: 1 hour\n",
            "horizon: is no duration; write for example 60s, 5m or 1h30m",
            id="a length that is no duration",
        ),
        pytest.param(
            LEDGER + "horizon: true\n",
            "horizon: write a duration such as 60s",
            id="a truth value for a duration",
        ),
        pytest.param(
            LEDGER + "horizon: 0s\n",
            "horizon: Input should be greater than 0",
            id="a length of nothing",
        ),
        pytest.param(
            LEDGER.replace("stack.db", "${NO_SUCH}/stack.db"),
            "stores.ledger.url: the environment variable NO_SUCH is not set",
            id="an environment variable that is not set",
        ),
        pytest.param(
            LEDGER.replace("url: 'sqlite:///stack.db'", "url_file: nowhere.txt"),
            "stores.ledger.url_file: nowhere.txt can't be read; "
            "check the path and its permissions",
            id="a secret file that is not there",
        ),
        pytest.param(
            "stores:\n  ledger: {type: sql, url: 'sqlite:///stack.db'}\n",
            "stores.ledger.shape: is missing; "
            "declare increments, cumulative or final (it is never guessed)",
            id="a ledger without a shape",
        ),
        pytest.param(
            LEDGER.replace("increments", "delta"),
            "stores.ledger.shape: Input should be 'increments', 'cumulative' or 'final'",
            id="a ledger of an unknown shape",
        ),
        pytest.param(
            "stores:\n  ledger: {type: sql, shape: final}\n",
            "stores.ledger.url: is missing; write for example sqlite:///stack.db, or url_file",
            id="a store without a url",
        ),
        pytest.param(
            LEDGER.replace("'sqlite:///stack.db'", "stack"),
            "stores.ledger.url: is no database URL; write for example sqlite:///stack.db",
            id="a url that is none",
        ),
        pytest.param(
            ledger_with("timezone: Mars/Base"),
            "stores.ledger.timezone: is no known time zone; "
            "write for example UTC or Europe/Berlin",
            id="an unknown time zone",
        ),
        pytest.param(
            LEDGER + "pools: {other: {role: paid}}\n",
            "pools: the name 'other' is kept for tasks of pools that are not configured; "
            "choose another",
            id="a pool with the name that is kept",
        ),
        pytest.param(
            LEDGER + "pools: {a: {role: free}}\n",
            "pools.a.role: Input should be 'paid' or 'overflow'",
            id="a role that is none",
        ),
        pytest.param(
            LEDGER + "pools: {a: {}}\n",
            "pools.a.role: is missing; write paid or overflow",
            id="a pool without a role",
        ),
        pytest.param(
            LEDGER + "links: {runbook_base_url: wiki}\n",
            "links.runbook_base_url: write an absolute URL, starting with http:// or https://",
            id="a link that is not absolute",
        ),
        pytest.param(
            "stores: [\n",
            "line 2: expected the node content, but found '<stream end>'",
            id="a file that is no YAML",
        ),
        pytest.param(
            "stores: !!python/object/apply:os.system ['true']\n",
            "line 1: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.system'",
            id="a tag that would run code",
        ),
    ],
)  # fmt: skip
def test_a_wrong_config_names_file_key_and_remedy(text: str, expected: str, tmp_path: Path) -> None:
    """One line for each problem: the file, the key, and what to write instead."""
    assert complaint(tmp_path, text) == f"orphanwatch.yml: {expected}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LEDGER + "? [a]\n: 1\n", id="a key that is a list"),
        pytest.param(LEDGER + "? {a: 1}\n: 1\n", id="a key that is a mapping"),
        pytest.param(LEDGER + "horizon: .inf\n", id="an infinite length"),
        pytest.param(LEDGER + "horizon: -.inf\n", id="a negative infinite length"),
        pytest.param(LEDGER + "horizon: .nan\n", id="a length that is no number"),
        pytest.param(LEDGER + "1: 2\n", id="a key that is a number"),
        pytest.param("stores:\n", id="stores of nothing"),
        pytest.param(LEDGER + "pools: 5\n", id="pools that are a number"),
        pytest.param(LEDGER.replace("'sqlite:///stack.db'", "5"), id="a url that is a number"),
        pytest.param(LEDGER + "replica_labels: instance\n", id="a text in the place of a list"),
    ],
)
def test_odd_yaml_is_an_error_and_no_traceback(text: str, tmp_path: Path) -> None:
    """Whatever stands in the file, the answer is a message that starts with the file's name."""
    assert complaint(tmp_path, text).startswith("orphanwatch.yml: ")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """Nobody mends a config one error at a time."""
    said = complaint(tmp_path, LEDGER + "foo: 1\nhorizon: soon\npools: {a: {}}\n").splitlines()

    assert sorted(said) == [
        "orphanwatch.yml: foo: is no key we know; check its spelling",
        "orphanwatch.yml: horizon: is no duration; write for example 60s, 5m or 1h30m",
        "orphanwatch.yml: pools.a.role: is missing; write paid or overflow",
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message names the file and what the system said."""
    with pytest.raises(ConfigError, match=re.escape("nowhere.yml: can't be read: No such file")):
        load_config(tmp_path / "nowhere.yml")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are an error, not a traceback."""
    (tmp_path / "orphanwatch.yml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match=re.escape("orphanwatch.yml: is not UTF-8 text")):
        load_config(tmp_path / "orphanwatch.yml")


def url_of(config: Config) -> str:
    """Return the ledger's url in clear."""
    assert isinstance(config.stores.ledger, SqlLedgerStore)
    return config.stores.ledger.url.get_secret_value()


def test_paths_are_taken_from_the_files_own_folder(tmp_path: Path) -> None:
    """A relative database, secret file or state file lies beside the config, wherever it is run."""
    (tmp_path / "secret.txt").write_text("sqlite:///sub/stack.db\n", encoding="utf-8")

    direct = load(tmp_path, LEDGER + "state_file: state.db\n")
    assert url_of(direct) == f"sqlite:///{tmp_path}/stack.db"
    assert direct.state_file == str(tmp_path / "state.db")
    by_file = load(tmp_path, LEDGER.replace("url: 'sqlite:///stack.db'", "url_file: secret.txt"))
    assert url_of(by_file) == f"sqlite:///{tmp_path}/sub/stack.db"
    absolute = load(tmp_path, LEDGER.replace("sqlite:///stack.db", "sqlite:////var/stack.db"))
    assert url_of(absolute) == "sqlite:////var/stack.db"


def test_the_environment_fills_in_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """``${NAME}`` is filled in anywhere in a value; ``$NAME`` and ``{NAME}`` stay as they are."""
    text = LEDGER.replace("stack.db", "${HERE}/$HERE/{HERE}/stack.db") + "service: 'a-${NAME}-b'\n"

    config = load(tmp_path, text, HERE="x", NAME="y")

    assert make_url(url_of(config)).database == f"{tmp_path}/x/$HERE/{{HERE}}/stack.db"
    assert config.service == "a-y-b"


def test_a_filled_in_value_is_not_filled_in_again(tmp_path: Path) -> None:
    """What the environment says is a value, even where it looks like a reference."""
    config = load(tmp_path, LEDGER + "service: ${A}\n", A="${B}", B="no")

    assert config.service == "${B}"


PASSWORD = "hunter2-secret"  # noqa: S105  (made up)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("horizon: soon\n", id="an error elsewhere"),
        pytest.param("pools: {a: {role: free}}\n", id="an error in a pool"),
    ],
)
def test_secrets_stand_in_no_error(more: str, tmp_path: Path) -> None:
    """A wrong config is explained without the url that stands beside the error."""
    url = f"postgresql://user:{PASSWORD}@host/db"

    assert PASSWORD not in complaint(tmp_path, LEDGER.replace("sqlite:///stack.db", url) + more)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"//user:{PASSWORD}@host/db", id="no scheme"),
        pytest.param(f"postgresql://user:{PASSWORD}@host:port/db", id="a port that is no number"),
        pytest.param(
            f"postgresql://user@host:{PASSWORD}/db", id="the password in the port's place"
        ),
        pytest.param(f"postgresql:/user:{PASSWORD}@host/db", id="one slash too few"),
    ],
)
@pytest.mark.parametrize("source", ["url", "environment", "file"])
def test_a_url_that_can_not_be_read_is_not_shown(url: str, source: str, tmp_path: Path) -> None:
    """The message says what is wrong with the url and shows no part of it."""
    (tmp_path / "secret.txt").write_text(url, encoding="utf-8")
    text = {
        "url": LEDGER.replace("sqlite:///stack.db", url),
        "environment": LEDGER.replace("sqlite:///stack.db", "${URL}"),
        "file": LEDGER.replace("url: 'sqlite:///stack.db'", "url_file: secret.txt"),
    }[source]

    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, URL=url)

    assert PASSWORD not in str(caught.value)
    assert "url" in str(caught.value)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert PASSWORD not in repr(chain)
        chain = None if chain.__suppress_context__ else chain.__cause__ or chain.__context__


def test_secrets_stand_in_no_printed_config(tmp_path: Path) -> None:
    """Neither ``repr`` nor ``str`` nor a dump shows a url."""
    config = load(tmp_path, LEDGER.replace("sqlite:///stack.db", f"x://user:{PASSWORD}@host/db"))

    assert PASSWORD in url_of(config)
    for shown in (repr(config), str(config), repr(config.stores), config.model_dump_json()):
        assert PASSWORD not in shown


def test_a_config_does_not_change(tmp_path: Path) -> None:
    """The loaded config is frozen: everything is fed from one value."""
    config = load(tmp_path, WHOLE)

    with pytest.raises(ValueError, match="frozen"):
        config.horizon = config.delta_window  # type: ignore[misc]  # that is the case


def test_timeouts_that_outlast_an_evaluation_are_refused(tmp_path: Path) -> None:
    """A store that may hang longer than an evaluation counts would blind all the others."""
    slow = LEDGER.replace("shape:", "timeout: 40s, shape:")
    (tmp_path / "orphanwatch.yml").write_text(slow)

    with pytest.raises(ConfigError, match="their timeouts add up to 40s") as refused:
        load_config(tmp_path / "orphanwatch.yml")

    assert "lower them" in str(refused.value)
