"""Storage options: the same verbs on an object store."""

from __future__ import annotations

from tests.cli.calls import Call
from tests.support.places import StorePlace


def test_the_verbs_work_on_s3_with_options(call: Call, s3_place: StorePlace) -> None:
    options = [word for key, value in s3_place.options.items() for word in ("-o", f"{key}={value}")]
    rows = '{"level":"ERROR","message":"gateway timeout"}\n'
    words = ("append", s3_place.url, "-", "--format", "jsonl", "--create", "--text", "message")
    call(*words, *options, stdin=rows)
    assert call("search", s3_place.url, "timeout", *options, "--json").json[0]["level"] == "ERROR"
    assert call("verify", s3_place.url, *options, "--json").json["status"] == "healthy"
    settings = call("describe", s3_place.url, *options).out
    assert not any(
        value in settings for key, value in s3_place.options.items() if key.endswith("secretKey")
    )
