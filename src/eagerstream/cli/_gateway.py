"""`serve_gateway`: the work of the command `gateway`. It starts the workers, and uvicorn's supervisor keeps them alive.

A worker imports this module before it can answer the supervisor, so the heavy imports are in the functions.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import Final

import anyio

from .._serving.access import Access
from .._serving.asgi_server import ASGIApplication, listen
from ..errors import MissingExtraError, UsageError

_MAX_SOCKET_CHARS: Final = 100
"""Maximum length of the path of a socket. Linux takes 107 bytes, macOS 103."""
_SILENCE_S: Final = 30
"""Time after which a worker that does not answer the supervisor is replaced, and in which a new one has to start, or a
restart is given up. On a busy machine, imports take 10 s.
"""
_ADVERTISED: Final = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?/?")
_MAX_FILES: Final = 65_536


@dataclass(frozen=True)
class WorkerFactory:
    """Makes the application of a worker, in its process.

    Attributes:
        target: `module:name` of the user's application, or of a function without parameters that makes it.
        folder: Folder of the workers' sockets; None for a single worker.
        redis: URL of Redis, which may contain a password; None if there are no other machines.
        advertised: URL at which other machines reach this gateway.
        access: The rule for requests to the gateway.
        has_metrics: Answer `GET /metrics`.
    """

    target: str
    folder: Path | None
    redis: str | None = field(repr=False)
    advertised: str
    access: Access
    has_metrics: bool

    def __call__(self) -> ASGIApplication:
        """Return the application. In a worker of several, end the process if it cannot be made."""
        import logging

        from uvicorn.config import STARTUP_FAILURE

        from ..progress.gateway._owners import Registry
        from ..progress.gateway._worker import Worker

        registry = None if self.redis is None else Registry(self.redis, self.advertised)
        logger = logging.getLogger("uvicorn.error")
        if self.folder is not None:
            logger.setLevel(logging.WARNING)  # the supervisor says what the workers do
        try:
            application = load_application(self.target)
            return Worker(application, self.folder, registry, self.access, has_metrics=self.has_metrics)
        except Exception:
            if self.folder is None:
                raise
            logger.exception("the application cannot be loaded")
            sys.exit(STARTUP_FAILURE)  # the supervisor knows it by that


def load_application(target: str) -> ASGIApplication:
    """Return the application that `module:name` is, or that the function `module:name` returns.

    Raises:
        UsageError: There is no such module or name, or it is neither.
    """
    from uvicorn.importer import ImportFromStringError, import_from_string

    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_from_string(target)
    except ImportFromStringError as error:
        raise UsageError(str(error)) from error
    if not callable(found):
        raise UsageError(f"{target} is no ASGI application")
    required = [one for one in signature(found).parameters.values() if one.default is Parameter.empty]
    named = [one for one in required if one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    made = found if named else found()
    if not callable(made):
        raise UsageError(f"{target} makes no ASGI application")
    application: ASGIApplication = made
    return application


def serve_gateway(
    target: str,
    *,
    workers: int,
    host: str,
    port: int,
    grace_s: int,
    redis_url: str | None,
    advertised: str | None,
    hosts: Collection[str],
    origins: Collection[str],
    has_metrics: bool,
    on_start: Callable[[str], object],
) -> None:
    """Serve an application with several processes, until a signal ends them.

    Args:
        target: As for `WorkerFactory`.
        workers: Number of processes.
        host: The address to listen on.
        port: 0 takes a free port.
        grace_s: Seconds that the runs of a worker have to end when it is stopped. Then they are cancelled.
        redis_url: URL of Redis, which knows the gateways of other machines; None if there are none.
        advertised: URL at which other machines reach this gateway.
        hosts: Further names of the gateway, beside `host` and those of loopback.
        origins: Origins of pages that may use the gateway.
        has_metrics: Answer `GET /metrics`.
        on_start: Called with the URL of the gateway, when clients can connect.

    Raises:
        UsageError: The target is no application, the port is in use, Redis does not answer, a worker did not start, a
            host or an origin is malformed.
        MissingExtraError: An extra is not installed.
    """
    for package in ("uvicorn", "prometheus_client"):  # not imported yet: it reads the environment when it is
        if find_spec(package) is None:
            raise MissingExtraError("gateway", package)
    import uvicorn

    from ..progress.gateway._protocol import PROTOCOL

    access = Access(hosts=hosts, origins=origins, host=host)
    if sys.platform == "win32":
        raise UsageError("the gateway needs Unix sockets and signals, which Windows does not have")
    with tempfile.TemporaryDirectory(prefix="eagerstream-") as private, listen(host, port) as listener:
        folder = Path(private)  # nobody else may open it
        url = _url(host, listener.getsockname()[1])
        if redis_url is not None:
            advertised = advertised or _advertisable(host, url)
            _check_registry(redis_url, advertised)
        _measure_in(folder / "metrics")
        _allow_files()
        if workers > 1 and len(str(folder)) + len("/01234567.sock") > _MAX_SOCKET_CHARS:
            raise UsageError(f"the path of {folder.parent} is too long for sockets: set TMPDIR to a shorter one")
        load_application(target)  # its errors are reported here, once
        factory = WorkerFactory(
            target=target,
            folder=folder if workers > 1 else None,
            redis=redis_url,
            advertised=advertised or url,
            access=access,
            has_metrics=has_metrics,
        )
        config = uvicorn.Config(
            factory,
            factory=True,
            lifespan="on",  # the worker answers for an application that has none
            interface="asgi3",
            workers=workers,
            http=PROTOCOL,
            access_log=False,  # it would have the tokens in URLs
            server_header=False,
            timeout_graceful_shutdown=grace_s,
            timeout_worker_healthcheck=_SILENCE_S,
        )
        on_start(url)
        if workers == 1:
            uvicorn.Server(config).run([listener])
            return
        from ..progress.gateway._supervisor import Supervisor

        supervisor = Supervisor(config, [listener])
        supervisor.run()
        if any(process.exitcode == uvicorn.config.STARTUP_FAILURE for process in supervisor.processes):
            raise UsageError("a worker could not start: see its messages above")


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _advertisable(host: str, url: str) -> str:
    try:
        if ipaddress.ip_address(host).is_unspecified:
            raise UsageError(f"other machines cannot reach {host}: --advertise has to say how they reach this one")
    except ValueError:
        pass  # a name
    return url


def _check_registry(redis_url: str, advertised: str) -> None:
    """Check that Redis answers.

    Raises:
        UsageError: Redis does not answer, or a URL is wrong.
    """
    if not _ADVERTISED.fullmatch(advertised):
        raise UsageError("--advertise is a URL such as http://10.0.0.5:8000, without a path")
    from ..progress.gateway._owners import Registry

    async def ping() -> None:
        async with Registry(redis_url, advertised).client() as client:
            await client.ping()

    try:
        anyio.run(ping)
    except UsageError:
        raise
    except Exception as error:
        # Its text may contain the URL, and so the password.
        raise UsageError(f"Redis does not answer ({type(error).__name__})") from error


def _measure_in(folder: Path) -> None:
    from ..progress.gateway._metrics import FOLDER_VARIABLE

    if (given := os.environ.get(FOLDER_VARIABLE)) is None:
        folder.mkdir()
        os.environ[FOLDER_VARIABLE] = str(folder)
    elif not Path(given).is_dir():
        raise UsageError(f"{FOLDER_VARIABLE} names {given}, which is no folder")


def _allow_files() -> None:
    """Allow as many open files as the system does: each run takes two, and the default is about 1,000."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
