"""Settings of stores: credentials, endpoints, timeouts. Other values come from the cloud's
environment.
"""

from __future__ import annotations

from msgspec import Struct

from indextables.config.registry import SettingsGroup, setting
from indextables.config.values import boolean, duration_ms, integer, local_path, size, text


class AwsSettings(SettingsGroup, frozen=True):
    """Access to S3 and compatible stores."""

    access_key: str | None = setting("aws.accessKey", text(), None, "Access key id.", secret=True)
    secret_key: str | None = setting(
        "aws.secretKey", text(), None, "Secret access key.", secret=True
    )
    session_token: str | None = setting(
        "aws.sessionToken", text(), None, "Token of a temporary key.", secret=True
    )
    region: str | None = setting("aws.region", text(), None, "Region of the bucket.")
    endpoint: str | None = setting(
        "aws.endpoint", text(), None, "Address of a store other than AWS."
    )
    path_style_access: bool | None = setting(
        "aws.pathStyleAccess",
        boolean(),
        None,
        "Whether the bucket goes into the path (true) or the host name (false); unset: the path for an endpoint.",
    )
    allow_http: bool = setting("aws.allowHttp", boolean(), False, "Accept an endpoint without TLS.")
    credentials_provider_class: str | None = setting(
        "aws.credentialsProviderClass",
        text(),
        None,
        "Class or function, written `module:Name`, whose result is called for new credentials "
        "when they expire. If it has a parameter `settings`, it receives the `databricks.*` "
        "settings.",
    )


class AzureSettings(SettingsGroup, frozen=True):
    """Access to Azure Blob Storage."""

    account_name: str | None = setting(
        "azure.accountName", text(), None, "Storage account, if the URL names none."
    )
    account_key: str | None = setting(
        "azure.accountKey", text(), None, "Key of the storage account.", secret=True
    )
    connection_string: str | None = setting(
        "azure.connectionString",
        text(),
        None,
        "Account, key and endpoint in the portal's one-line form.",
        secret=True,
    )
    sas_token: str | None = setting(
        "azure.sasToken", text(), None, "Shared access signature.", secret=True
    )
    bearer_token: str | None = setting(
        "azure.bearerToken",
        text(),
        None,
        "Token of Azure's directory, as sent in a request.",
        secret=True,
    )
    tenant_id: str | None = setting(
        "azure.tenantId", text(), None, "Tenant of the service principal."
    )
    client_id: str | None = setting(
        "azure.clientId", text(), None, "Client id of the service principal."
    )
    client_secret: str | None = setting(
        "azure.clientSecret", text(), None, "Secret of the service principal.", secret=True
    )
    endpoint: str | None = setting(
        "azure.endpoint", text(), None, "Address of a blob service other than Azure."
    )
    use_emulator: bool = setting(
        "azure.useEmulator", boolean(), False, "Use Azurite with its well-known account."
    )


class GcpSettings(SettingsGroup, frozen=True):
    """Access to Google Cloud Storage."""

    service_account_key: str | None = setting(
        "gcp.serviceAccountKey",
        text(),
        None,
        "Service account key: its JSON text or its file.",
        secret=True,
    )
    endpoint: str | None = setting(
        "gcp.endpoint", text(), None, "Address of a store other than Google's."
    )


class HdfsSettings(SettingsGroup, frozen=True):
    """Access to HDFS, in addition to Hadoop's configuration files."""

    config_directory: str | None = setting(
        "hdfs.configDirectory",
        local_path(),
        None,
        "Folder of core-site.xml and hdfs-site.xml; unset: HADOOP_CONF_DIR.",
    )
    kerberos_principal: str | None = setting(
        "hdfs.kerberosPrincipal", text(), None, "Principal to log in as."
    )
    kerberos_keytab: str | None = setting(
        "hdfs.kerberosKeytab", local_path(), None, "Keytab file of the principal."
    )
    kerberos_cache: str | None = setting(
        "hdfs.kerberosCache", text(), None, "Ticket cache; unset: the user's own."
    )


class DatabricksSettings(SettingsGroup, frozen=True):
    """Settings of a Databricks workspace. Only a credentials class (`aws.credentialsProviderClass`)
    reads them.
    """

    workspace_url: str | None = setting(
        "databricks.workspaceUrl", text(), None, "Address of the workspace."
    )
    api_token: str | None = setting(
        "databricks.apiToken", text(), None, "Token for its API.", secret=True
    )
    client_id: str | None = setting(
        "databricks.clientId", text(), None, "OAuth client, instead of a token."
    )
    client_secret: str | None = setting(
        "databricks.clientSecret", text(), None, "Secret of the OAuth client.", secret=True
    )
    refresh_buffer_minutes: int | None = setting(
        "databricks.credential.refreshBuffer.minutes",
        integer(0),
        None,
        "How long before their expiry credentials are renewed.",
    )
    cache_size: int | None = setting(
        "databricks.cache.maxSize",
        integer(0),
        None,
        "Maximum number of credentials that the class caches.",
    )
    fallback: bool | None = setting(
        "databricks.fallback.enabled",
        boolean(),
        None,
        "Whether credentials for reading are used if there are none for writing.",
    )
    retry_attempts: int | None = setting(
        "databricks.retry.attempts",
        integer(0),
        None,
        "Number of retries of a request to the workspace.",
    )

    def given(self) -> dict[str, object]:
        """Return the given values by key."""
        values = {s.key: getattr(self, name) for name, s in self.declared.items()}
        return {key: value for key, value in values.items() if value is not None}


class RequestSettings(SettingsGroup, frozen=True):
    """Timeouts and retries of requests to remote stores."""

    timeout_ms: int = setting(
        "storage.timeoutMs",
        duration_ms(1),
        60_000,
        "How long a request waits for a remote store before it fails.",
    )
    max_retries: int = setting(
        "storage.retry.maxRetries",
        integer(0, 100),
        8,
        "Repeats after throttling, 5xx or a lost connection.",
    )
    base_delay_ms: int = setting(
        "storage.retry.baseDelayMs",
        duration_ms(1),
        100,
        "Shortest wait before a repeat; it grows, with jitter.",
    )
    max_delay_ms: int = setting(
        "storage.retry.maxDelayMs", duration_ms(1), 10_000, "Longest wait before a repeat."
    )
    part_bytes: int = setting(
        "storage.partSize",
        size(5 << 20, 5 << 30),
        8 << 20,
        "Size of the parts in which a large file is uploaded to a remote store; larger if "
        "there would be too many parts.",
    )


class StoreSettings(Struct, frozen=True):
    """Everything that opening a store of any kind may need."""

    aws: AwsSettings = AwsSettings()
    azure: AzureSettings = AzureSettings()
    gcp: GcpSettings = GcpSettings()
    hdfs: HdfsSettings = HdfsSettings()
    requests: RequestSettings = RequestSettings()
    databricks: DatabricksSettings = DatabricksSettings()
