"""An archive in a bucket of an object store, through obstore.

    s3://BUCKET/PREFIX       S3, Cloudflare's R2, SeaweedFS, or any server that speaks the same
    gs://BUCKET/PREFIX       Google Cloud Storage
    az://CONTAINER/PREFIX    Azure Blob Storage; abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX names the account

The objects are those of a folder, under the same names and with the same bytes. Where the server is and the keys to it
come from the environment, in the variables that every tool of that store reads. They are in no setting, message,
pickle or file.

A put is conditional: the server refuses a key that is taken, so of two writers one is first. An object is there whole
or not at all; what a killed upload left is the server's to clean up. Nobody who trades waits for this archive: see
`spool.py`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tapebook.archive.port import (
    backup_key,
    checked_key,
    key_of_name,
    matches_key,
    object_name,
    pack_object,
    unpack_object,
)
from tapebook.errors import ConfigError, Damaged, StoreFailed

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import AzureStore, GCSStore, S3Store
except ModuleNotFoundError as error:
    raise ConfigError("an archive in a bucket needs its driver: pip install 'tapebook[s3]'") from error
if TYPE_CHECKING:
    from obstore.store import ObjectStore

Result = TypeVar("Result")

_ADDRESS = re.compile(
    r"(?P<scheme>[a-z0-9]+)://(?P<bucket>[a-z0-9][a-z0-9._-]{2,62})"
    # Only Azure's own names of accounts: whatever else stands before a host may be a password.
    r"(?:@(?P<account>[a-z0-9]{3,24})\.(?:dfs|blob)\.core\.windows\.net)?(?P<prefix>/[^?#@]*)?"
)
_QUERY = re.compile(r"\?[^\s)]*")
_HEALED, _DAMAGED = "healed", ".damaged"
# A server that is away is tried again in a few minutes by whoever drains the spool: no call hangs for long.
_SECONDS = timedelta(seconds=20)
_RETRIES = 2


class _ObjectService(NamedTuple):
    """A kind of object store: what opens it, and what to look at when it refuses or is not found."""

    store: type[S3Store] | type[GCSStore] | type[AzureStore]
    keys: str
    place: str


_S3 = _ObjectService(
    S3Store, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL, AWS_REGION, the bucket and the network"
)
_GOOGLE = _ObjectService(
    GCSStore, "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT_KEY", "the bucket and the network"
)
_AZURE = _ObjectService(
    AzureStore,
    "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_ACCOUNT_NAME, the container and the network",
)
_SERVICES = {"s3": _S3, "s3a": _S3, "gs": _GOOGLE} | dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), _AZURE)


class BucketArchive:
    """Objects in a bucket, below a prefix."""

    is_local = False

    def __init__(self, address: str) -> None:
        found = _ADDRESS.fullmatch(address)
        service = _SERVICES.get(found["scheme"]) if found else None
        if found is None or service is None or (found["account"] and service is not _AZURE):
            scheme = address.partition("://")[0]
            # Not the address: it may hold a password.
            raise ConfigError(f"the archive on {scheme}:// is no bucket: write it like {scheme}://bucket/prefix")
        self._address = address
        self._service = service
        prefix = (found["prefix"] or "").strip("/")
        if prefix:
            checked_key(prefix)
        self._store = _open_store(service, found["bucket"], account=found["account"], prefix=prefix)

    def __reduce__(self) -> "tuple[type[BucketArchive], tuple[str]]":
        # The driver's own state holds the keys: another process takes them from its own environment.
        return BucketArchive, (self._address,)

    def create(self, key: str, content: bytes) -> None:
        """Stores an object once."""
        name = _name(key)
        packed = pack_object(key, content)
        try:
            self._ask("write", lambda: obstore.put(self._store, name, packed, mode="create"))
        except _TakenError:
            self._compare(key, content)

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores several objects, one by one."""
        for key, content in objects.items():
            self.create(key, content)

    def delete_backup(self, key: str) -> None:
        """Deletes an object of a backup; nothing when it is gone."""
        name = _name(backup_key(key))
        self._ask("write", lambda: self._delete(name))

    def get(self, key: str) -> bytes | None:
        """An object's bytes."""
        packed = self._stored_bytes(_name(key))
        return None if packed is None else unpack_object(packed, f"{self._address}/{key}")

    def has(self, key: str) -> bool:
        """Whether there is an object."""
        return self._ask("read", lambda: self._head(_name(key)))

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        folder = prefix.rpartition("/")[0]
        # The server knows folders only: "p/00" would find nothing below "p/001".
        below = f"{checked_key(folder)}/" if "/" in prefix else None
        names = self._ask("read", lambda: list(self._names(below)))
        return sorted(key for key in map(key_of_name, names) if key is not None and key.startswith(prefix))

    def walk_keys(self) -> Iterator[str]:
        """Every key, as the server lists them."""
        yield from self.keys("")

    def stray_files(self) -> Iterator[str]:
        """What lies below the prefix and is no object."""
        for name in self._ask("read", lambda: list(self._names(None))):
            if key_of_name(name) is None and not name.startswith(f"{_HEALED}/"):
                yield name

    def repaired_objects(self) -> list[str]:
        """Every object that was damaged and replaced."""
        names = self._ask("read", lambda: list(self._names(f"{_HEALED}/")))
        return sorted(name.removeprefix(f"{_HEALED}/").removesuffix(_DAMAGED) for name in names)

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """None: an upload that was cut off is no object, and a rule of the bucket deletes its parts."""
        return 0

    def write_problem(self) -> str | None:
        """Nothing that could be told without writing."""
        return None

    def _compare(self, key: str, content: bytes) -> None:
        """Sees that the object of a key that is taken holds the content; one that is torn or altered is replaced."""
        name = _name(key)
        packed = self._stored_bytes(name)
        try:
            found = None if packed is None else unpack_object(packed, name)
        except Damaged:
            found = None
        if found == content:
            return
        if (found is not None and matches_key(key, found)) or not matches_key(key, content):
            raise Damaged(f"the archive already holds other bytes under {key}")
        if packed is not None:
            evidence = f"{_HEALED}/{key.replace('/', '_')}{_DAMAGED}"
            self._ask("write", lambda: obstore.put(self._store, evidence, packed))
        self._ask("write", lambda: obstore.put(self._store, name, pack_object(key, content)))

    def _stored_bytes(self, name: str) -> bytes | None:
        return self._ask("read", lambda: self._read(name))

    def _read(self, name: str) -> bytes | None:
        try:
            return obstore.get(self._store, name).bytes().to_bytes()
        except FileNotFoundError:
            return None

    def _head(self, name: str) -> bool:
        try:
            obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        return True

    def _delete(self, name: str) -> None:
        # A server of S3 says nothing of a key that is not there; those of Google and Azure do.
        with suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def _names(self, below: str | None) -> Iterator[str]:
        for batch in obstore.list(self._store, prefix=below):
            yield from (each["path"] for each in batch)

    def _ask(self, what: str, call: Callable[[], Result]) -> Result:
        """What the server says; StoreFailed, in one line and without a key, when it does not."""
        try:
            return call()
        except AlreadyExistsError:
            raise _TakenError from None
        except (BaseError, OSError) as error:
            # Without the driver's error behind it: that may quote headers with a key.
            raise StoreFailed(f"cannot {what} {self._address}: {_reason(error, self._service)}") from None


class _TakenError(Exception):
    """A key that is taken."""


def _open_store(service: _ObjectService, bucket: str, *, account: str | None, prefix: str) -> "ObjectStore":
    """The store of a bucket; ConfigError when the environment does not say enough to make one."""
    # Each store has a type of its own for what it is told besides the environment.
    config: Any = {"account_name": account} if account else None
    try:
        return service.store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"timeout": _SECONDS, "connect_timeout": timedelta(seconds=5), "allow_http": True},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _SECONDS},
        )
    except (BaseError, OSError, ValueError):
        # Without what the driver says: that may quote a key which it cannot read.
        raise ConfigError(
            f"the bucket {bucket} cannot be used as the environment is: check {service.keys}, {service.place}"
        ) from None


def _reason(error: Exception, service: _ObjectService) -> str:
    """Why a server refused, in a line, and what to look at."""
    kind, said = type(error).__name__, " ".join(str(error).split())
    if "RequestTimeTooSkewed" in said:
        return "the server refuses a request of another time: this machine's clock is wrong; set it right"
    if kind in ("UnauthenticatedError", "PermissionDeniedError"):
        return f"the server refuses the keys: check {service.keys}, and what they may do"
    if "SignatureDoesNotMatch" in said or "InvalidAccessKeyId" in said:
        return "the server refuses the keys, or this machine's clock is wrong: check both"
    # What a server answers in full may name a key, and a query may be a signature.
    return f"{_QUERY.sub('', said.partition('<')[0])[:160]}; check {service.place}"


def _name(key: str) -> str:
    return object_name(checked_key(key))
