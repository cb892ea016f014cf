"""Files that people share with a bot: a handle for agents, and the bytes for nobody but tools.

What a person sends becomes a handle that is theirs alone and expires. Agents and models see its summary. The bytes are
fetched where a tool needs them, and nowhere else.
"""

from assent.errors import FileGone, FileTooLarge, FileUnavailable
from assent.files.fetching import MAX_BYTES, Fetched, FileClient, Source, fetch
from assent.files.memory import InMemorySharedFileStore
from assent.files.resolver import SharedFileResolver
from assent.files.shared_file import SharedFile, shared_file_keys
from assent.files.sqlite import SqliteSharedFileStore
from assent.files.store import SharedFileStore

__all__ = [
    "MAX_BYTES",
    "Fetched",
    "FileClient",
    "FileGone",
    "FileTooLarge",
    "FileUnavailable",
    "InMemorySharedFileStore",
    "SharedFile",
    "SharedFileResolver",
    "SharedFileStore",
    "Source",
    "SqliteSharedFileStore",
    "fetch",
    "shared_file_keys",
]
