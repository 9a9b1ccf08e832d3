"""Settings as a session gives them: every `spark.indextables.*` key, under what the caller passes as options.

What Spark's own file systems are told of a store (`spark.hadoop.fs.s3a.access.key`) counts for us too, unless the session has
settings of ours for that kind of store.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from indextables.config import PREFIX, REGISTRY, is_setting
from indextables.errors import UnknownOptionError
from indextables.model.arguments import unexpected

logger = logging.getLogger(__name__)
_unknown: set[str] = set()
_writers: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def session_settings(spark: SparkSession) -> dict[str, str]:
    """The `spark.indextables.*` settings of a session."""
    everything = _all_in_one_call(spark) if has_jvm(spark) else spark.conf.getAll
    return known_settings(everything)


def known_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of a conf's keys that are settings of ours; such as look like one and are none are warned of."""
    ours = {key: value for key, value in properties.items() if key.lower().startswith(PREFIX)}
    known = {key: value for key, value in ours.items() if is_setting(key) or unknown_in_session(bare(key))}
    return {**file_system_settings(properties, known), **known}


HADOOP = "spark.hadoop.fs."
_S3A = {
    "s3a.access.key": "aws.accessKey",
    "s3a.secret.key": "aws.secretKey",
    "s3a.session.token": "aws.sessionToken",
    "s3a.endpoint.region": "aws.region",
    "s3a.path.style.access": "aws.pathStyleAccess",
}
_AZURE = {"azure.account.key.": "azure.accountKey", "azure.sas.fixed.token.": "azure.sasToken"}


def file_system_settings(properties: Mapping[str, str], given: Mapping[str, object]) -> dict[str, str]:
    """What a conf tells Spark's own file systems of a store, as settings of ours.

    A kind of store for which `given` has settings is left out whole: two halves of two credentials open nothing.
    """
    told = {key[len(HADOOP) :]: value for key, value in properties.items() if key.startswith(HADOOP)}
    found = {ours: told[key] for key, ours in _S3A.items() if told.get(key)}
    endpoint = told.get("s3a.endpoint")
    if endpoint:
        plain = told.get("s3a.connection.ssl.enabled", "true").lower() == "false"
        address = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
        found |= {"aws.endpoint": address, "aws.allowHttp": str(address.startswith("http://")).lower()}
    for prefix, ours in _AZURE.items():
        keys = [key for key in told if key.startswith(prefix)]
        if len(keys) == 1:  # with several accounts one setting cannot say which
            found |= {ours: told[keys[0]], "azure.accountName": keys[0].removeprefix(prefix).split(".")[0]}
    keyfile = told.get("gs.auth.service.account.json.keyfile")
    if keyfile:
        found["gcp.serviceAccountKey"] = keyfile
    kinds = {bare(key).split(".")[0].lower() for key in given}
    return {key: value for key, value in found.items() if key.split(".")[0] not in kinds}


def unknown_in_session(name: str) -> bool:
    """Warn once of a key in a Spark conf that is no setting: the conf may serve another engine too. It is left out."""
    if name not in _unknown:
        _unknown.add(name)
        try:
            REGISTRY.find(name)
        except UnknownOptionError as error:
            logger.warning("The session's %s%s is left out. %s", PREFIX, name, error)
    return False


def _all_in_one_call(spark: SparkSession) -> dict[str, str]:
    """All settings as one text: `spark.conf.getAll` asks the driver several times for each of them."""
    context = spark.sparkContext
    if context not in _writers:
        gateway: Any = context._gateway
        _writers[context] = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
    settings: dict[str, str] = json.loads(
        _writers[context].writeValueAsString(spark._jsparkSession.conf().getAllAsJava())
    )
    return settings


def with_session(spark: SparkSession, options: Mapping[str, object] | None) -> dict[str, object]:
    """Options over the session's settings, each key once: an option wins over the same key of the session."""
    settings = {bare(key): value for key, value in session_settings(spark).items()}
    return {**settings, **{bare(key): value for key, value in (options or {}).items()}}


def bare(key: str) -> str:
    """A key without the prefix that it may have."""
    return key[len(PREFIX) :] if key.lower().startswith(PREFIX) else key


def source_options(
    spark: SparkSession, options: Mapping[str, object] | None, own: Mapping[str, object | None]
) -> dict[str, str]:
    """Options for the data source: what the caller gave, what is asked for, and where need be the session's settings.

    With access to the driver the extension hands over the session's settings itself, so that no plan shows them.
    """
    settings = dict(options or {}) if has_jvm(spark) else with_session(spark, options)
    requests = {key: value for key, value in own.items() if value is not None}
    return {key: _text(value) for key, value in {**settings, **requests}.items()}


def session_of(df: DataFrame) -> SparkSession:
    """The session of a DataFrame; anything else cannot be written."""
    if not isinstance(df, DataFrame):
        raise unexpected("df", "a Spark DataFrame", df, hint="Make one with spark.createDataFrame(...).")
    return df.sparkSession


def has_jvm(spark: SparkSession) -> bool:
    """Whether this process talks to the driver itself, not through Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(list(value)) if isinstance(value, (list, tuple)) else str(value)
