"""The store that machines share: a bucket or a folder at $SENTEMB_STORE, any address of fsspec.

It has the layout of a home for `objects` and `records`, and the home is its cache. Files are
written before their manifest and artifacts before their record, so a name that exists is complete.
Any machine may stop at any moment, and no lock of a file system is needed.
"""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sentemb_core.errors import SentembError, SharedStoreError, UsageError
from sentemb_core.redaction import first_line, redacted

MARK = "sentemb-store.json"
"""Name that the first writer creates. Each process tests that it cannot be created again."""


@cache
def shared_store(url: str) -> "SharedStore":
    """Return the shared store of this address, one for all threads of the process."""
    return SharedStore(url)


class SharedStore:
    """Bytes under names below an address; names have the form `records/encode/KEY.json`.

    Each method raises `SharedStoreError` if the store refuses or does not answer.
    """

    def __init__(self, url: str) -> None:
        if redacted(url) != url:
            raise UsageError(
                f"SENTEMB_STORE has no user and no password; found {redacted(url)}. Credentials "
                "come from the environment or a profile, as for other programs."
            )
        self.url = url.rstrip("/")

    def read(self, name: str) -> bytes | None:
        """Return the content of a name; None if it is absent."""
        with self._answers(f"read {name}"):
            try:
                return self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a name."""
        with self._answers(f"write {name}"):
            self._files.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a name and return True, unless it exists: one of several machines creates it."""
        if not self._creates_once:
            raise SharedStoreError(
                "A shared store refuses to create a name that exists (S3: `If-None-Match: *`), so "
                f"that all machines agree on a result. {self.url} overwrote {MARK}. Use another "
                "store, or a newer version of its server."
            )
        return self._create(name, content)

    def upload(self, name: str, path: Path) -> None:
        with self._answers(f"write {name}"):
            self._files.put_file(str(path), self._path(name))

    def download(self, name: str, path: Path) -> bool:
        """Copy the content of a name into a file and return True, unless the name is absent."""
        with self._answers(f"read {name}"):
            try:
                self._files.get_file(self._path(name), str(path))
            except FileNotFoundError:
                return False
            return True

    def remove(self, name: str) -> None:
        """Remove a name. An absent name is no error."""
        with self._answers(f"remove {name}"):
            try:
                self._files.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _create(self, name: str, content: bytes) -> bool:
        with self._answers(f"create {name}"):
            try:
                with self._files.open(self._path(name), "xb") as file:
                    file.write(content)
            except FileExistsError:
                return False
            except OSError:  # some stores name another reason
                if self._files.exists(self._path(name)):
                    return False
                raise
            return True

    @cached_property
    def _creates_once(self) -> bool:
        return not (self._create(MARK, b"{}") and self._create(MARK, b"{}"))

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """Return the file system of fsspec and the path of the store in it."""
        from fsspec.core import split_protocol, url_to_fs  # only needed with a shared store

        local = split_protocol(self.url)[0] in (None, "file", "local")
        options = {"auto_mkdir": True} if local else {"skip_instance_cache": True}
        try:
            files, root = url_to_fs(self.url, **options)
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"SENTEMB_STORE names a folder or a bucket; {self.url} cannot be opened: "
                f"{first_line(error)}. For s3:// install the extra: pip install 'sentemb[s3]'."
            ) from error
        return files, root.rstrip("/")

    @property
    def _files(self) -> Any:
        return self._opened[0]

    @property
    def _root(self) -> str:
        return self._opened[1]

    @contextmanager
    def _answers(self, what: str) -> Generator[None, None, None]:
        try:
            yield
        except SentembError:
            raise
        except Exception as error:  # each library behind fsspec has errors of its own
            raise SharedStoreError(
                f"The shared store {self.url} could not {what}: {first_line(error)}. Finished "
                "stages are kept in the home, and the next run copies them. Check the address, "
                "the credentials, the network and the free space; then run again. Unset "
                "SENTEMB_STORE to work with the home alone."
            ) from error
