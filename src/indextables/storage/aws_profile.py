"""Keys from AWS's own files, `~/.aws/credentials` and `~/.aws/config`, which obstore does not read.

Only profiles that hold a key pair; one that signs on in the browser needs a provider class such as
`obstore.auth.boto3:Boto3CredentialProvider`.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

# What obstore finds by itself comes first, as it does for AWS's own tools.
_FOUND_BY_OBSTORE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_READ_AGAIN_AFTER = timedelta(minutes=15)


class AwsProfile(Struct, frozen=True):
    """The profile in force. Called, it gives the keys that its file holds now, so that rotated keys are picked up."""

    name: str
    credentials_file: Path
    config_file: Path

    def __call__(self) -> dict[str, Any]:
        """The keys in the form that obstore wants."""
        keys = self.keys()
        return {
            "access_key_id": keys.get("aws_access_key_id", ""),
            "secret_access_key": keys.get("aws_secret_access_key", ""),
            "token": keys.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + _READ_AGAIN_AFTER,
        }

    def keys(self) -> dict[str, str]:
        """Everything both files say about the profile."""
        section = self.name if self.name == "default" else f"profile {self.name}"
        return {**_section(self.config_file, section), **_section(self.credentials_file, self.name)}


def find_profile(environment: Mapping[str, str]) -> AwsProfile | None:
    """The profile that applies, if it holds a key pair and the environment holds nothing that goes before it."""
    if any(environment.get(name) for name in _FOUND_BY_OBSTORE):
        return None
    folder = Path(environment.get("HOME") or Path.home()) / ".aws"
    profile = AwsProfile(
        environment.get("AWS_PROFILE") or "default",
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
        Path(environment.get("AWS_CONFIG_FILE") or folder / "config"),
    )
    keys = profile.keys()
    return profile if keys.get("aws_access_key_id") and keys.get("aws_secret_access_key") else None


def _section(file: Path, name: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        # Not ours to judge: whoever has no usable file is served by the rest of the chain.
        return {}
    return dict(parser.items(name)) if parser.has_section(name) else {}
