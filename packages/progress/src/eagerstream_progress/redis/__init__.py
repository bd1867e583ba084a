"""`RedisRelay`: the hubs of several processes show each other's runs, through Redis Streams.

The process that has a run, its owner, writes the records into a stream, as one more watcher of the log. Each other
process reads the streams that somebody watches there. What people do comes back through a stream to the owner. It needs
the extra `redis`.
"""

from importlib.util import find_spec

from eagerstream.errors import MissingExtraError

if find_spec("redis") is None:
    raise MissingExtraError("redis", "redis", package="eagerstream-progress")

from ._relay import RedisRelay

__all__ = ["RedisRelay"]
