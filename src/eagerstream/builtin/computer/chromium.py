"""A Chromium of its own: started in an empty folder, driven over DevTools, and ended with all that it left."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import MissingExtraError, ToolError, UsageError
from ...tools import ToolErrorCode
from .origins import NowhereElse, Origin

if TYPE_CHECKING:
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.remote.client_config import ClientConfig
    from selenium.webdriver.remote.webdriver import WebDriver

T = TypeVar("T")

_ARGUMENTS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",  # its process outlives the browser
    "--disable-crash-reporter",
    "--disable-sync",
    "--disable-smooth-scrolling",  # a screenshot after scrolling shows where it ends
    "--no-first-run",
    "--force-color-profile=srgb",
    "--lang=en-US",
)
_DENY_DOWNLOADS: Final = 3
_START_S: Final = 60.0
_QUIT_S: Final = 3.0
_ENDED: Final = "Error: the browser has ended."
_MAX_TMPDIR_CHARS: Final = 55
_MAX_DIALOG_CHARS: Final = 200


class Chromium:
    """One browser, for one thread at a time; every method blocks.

    Args:
        program: Chromium, by name on the `PATH` or by path.
        driver: `chromedriver` of the same version, likewise.
        size: Width and height of the page, in pixels.
        origins: What it may reach.
        timeout_s: Seconds that one command may take.
    """

    def __init__(
        self, *, program: str, driver: str, size: tuple[int, int], origins: Sequence[Origin], timeout_s: float
    ) -> None:
        self._programs = (program, driver)
        self._size = size
        self._origins = origins
        self._timeout_s = timeout_s
        self._busy = threading.Lock()
        self._folder = ""
        self._network: NowhereElse | None = None
        self._service: Service | None = None
        self._driver: WebDriver | None = None
        self._settings: ClientConfig | None = None
        self._tabs: list[str] = []

    def start(self, url: str) -> None:
        """Start it, and open a page.

        Raises:
            MissingExtraError: Selenium is not installed.
            UsageError: A program is missing or does not start, or the page cannot be opened.
        """
        program, driver = (_found(program) for program in self._programs)
        try:
            from selenium.common.exceptions import WebDriverException
            from selenium.webdriver.chrome.service import Service
            from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
            from selenium.webdriver.common.proxy import Proxy, ProxyType
            from selenium.webdriver.remote.client_config import ClientConfig
            from selenium.webdriver.remote.webdriver import WebDriver
            from urllib3.exceptions import HTTPError
        except ModuleNotFoundError as error:
            raise MissingExtraError("computer", error.name or "selenium") from error
        commands = logging.getLogger("selenium.webdriver.remote.remote_connection")
        if commands.level == logging.NOTSET:  # at DEBUG it logs what is typed, unless somebody chose that
            commands.setLevel(logging.INFO)
        self._folder = tempfile.mkdtemp(prefix="eagerstream-chromium-")
        self._network = NowhereElse(self._origins)
        # Whatever it writes is in the folder, also what it keeps beside its profile; and temporary files, unless the
        # path of a socket among them would be too long for one.
        env = {**os.environ, "HOME": self._folder}
        if len(self._folder) <= _MAX_TMPDIR_CHARS:
            env["TMPDIR"] = self._folder
        self._service = Service(driver, env=env, popen_kw={"start_new_session": True})  # out of reach of a Ctrl-C
        try:
            self._service.start()
            self._settings = settings = ClientConfig(
                remote_server_addr=self._service.service_url,
                proxy=Proxy({"proxyType": ProxyType.DIRECT}),
                timeout=int(_START_S),
                init_args_for_pool_manager={"init_args_for_pool_manager": {"retries": False}},
            )
            connection = ChromiumRemoteConnection(
                settings.remote_server_addr, vendor_prefix="goog", browser_name="chrome", client_config=settings
            )
            self._driver = WebDriver(connection, options=self._options(program))
            self._driver.set_page_load_timeout(self._timeout_s)
            # A command is given up a little later than the page for which chromedriver waits, so that it can say so.
            settings.timeout = int(self._timeout_s) + 2
            self._follow(self._driver)
            self._driver.get(url)
        except (WebDriverException, HTTPError, OSError) as error:
            raise UsageError(f"the browser did not open {url}: {_first_line(error)}") from error

    def stop(self) -> None:
        """End it, however it is, and remove its folder; takes seconds at most."""
        if self._driver is not None and self._busy.acquire(timeout=1.0):  # else a command hangs, and quitting would
            try:
                assert self._settings is not None
                self._settings.timeout = int(_QUIT_S)
                with suppress(Exception):
                    self._driver.quit()
            finally:
                self._busy.release()
        self._driver = None
        if self._service is not None and (process := getattr(self._service, "process", None)) is not None:
            process.kill()
            process.wait()
            with suppress(Exception):
                self._service.stop()
            if process.stdin is not None:  # which `stop` leaves open where it fails
                process.stdin.close()
        if self._network is not None:
            self._network.close()
        if self._folder:
            _kill(self._folder)
            _remove(self._folder)

    def run(self, step: Callable[[Chromium], T]) -> tuple[T | None, str | None]:
        """Run a step at the page in front; one step at a time.

        Returns:
            What the step gave, None where it was cut short; and what the model is to know of it: that the tab was
            closed, or what a dialog said that the page opened, and that is dismissed, since no screenshot shows it.

        Raises:
            ToolError: The browser has ended, does not answer, or refuses a command: in words for the model.
        """
        from selenium.common.exceptions import (
            NoAlertPresentException,
            NoSuchWindowException,
            UnexpectedAlertPresentException,
        )

        with self._busy, self._translated():
            driver = self._running()
            done: T | None = None
            try:
                self._follow(driver)
                done = step(self)
                alert = driver.switch_to.alert
                text = alert.text
                alert.dismiss()
            except UnexpectedAlertPresentException as error:  # chromedriver dismisses it itself
                text = error.alert_text or ""
            except NoAlertPresentException:
                return done, None
            except NoSuchWindowException:
                return done, "The tab was closed."
        shown = " ".join(text.split())[:_MAX_DIALOG_CHARS]
        return done, f"The page opened a dialog, which was dismissed: {shown}"

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol; within `run`."""
        answer = self._running().execute("executeCdpCommand", {"cmd": method, "params": parameters})
        value: dict[str, Any] = answer["value"]
        return value

    def _options(self, program: str) -> Options:
        from selenium.webdriver.chrome.options import Options

        assert self._network is not None
        options = Options()
        options.binary_location = program
        arguments = [*_ARGUMENTS, *self._network.arguments(), f"--user-data-dir={self._folder}/profile"]
        if os.geteuid() == 0:  # Chromium's sandbox refuses to run as root
            arguments.append("--no-sandbox")
        for argument in arguments:
            options.add_argument(argument)
        # chromedriver would switch off what keeps pages from opening windows by themselves.
        options.add_experimental_option("excludeSwitches", ["disable-popup-blocking"])
        preferences = {"download_restrictions": _DENY_DOWNLOADS, **self._network.preferences()}
        options.add_experimental_option("prefs", preferences)
        # Commands wait for a page under way, until it can be used; images need not be there.
        options.page_load_strategy = "eager"
        return options

    def _running(self) -> WebDriver:
        if self._driver is None:
            raise ToolError("Error: the browser is not running.", code=ToolErrorCode.SERVICE_UNAVAILABLE)
        return self._driver

    def _follow(self, driver: WebDriver) -> None:
        """Go to the newest tab: what a link opened is in front, and once it is closed, what was before."""
        handles = driver.window_handles
        if handles == self._tabs:
            return
        opened = [handle for handle in handles if handle not in self._tabs]
        self._tabs = [*(tab for tab in self._tabs if tab in handles), *opened]
        if not self._tabs:
            raise ToolError("Error: the page was closed.", code=ToolErrorCode.SERVICE_UNAVAILABLE)
        driver.switch_to.window(self._tabs[-1])
        if opened:
            width, height = self._size
            self.command(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            self.command("Page.setInterceptFileChooserDialog", enabled=True)  # no file of this machine is offered

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What goes wrong, in words for the model; the driver's own have addresses of this machine in them."""
        from selenium.common.exceptions import InvalidSessionIdException, TimeoutException, WebDriverException
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        try:
            yield
        except (TimeoutException, ReadTimeoutError) as error:
            raise ToolError(
                f"Error: the page did not answer within {self._timeout_s:g} seconds.", code=ToolErrorCode.TIMEOUT
            ) from error
        except (HTTPError, OSError) as error:  # the driver is not there
            raise ToolError(_ENDED, code=ToolErrorCode.SERVICE_UNAVAILABLE) from error
        except WebDriverException as error:
            line = _first_line(error)
            if "crash" in line:
                text = "Error: the page has crashed."
            elif "disconnected" in line or isinstance(error, InvalidSessionIdException) or not _processes(self._folder):
                text = _ENDED
            else:
                text = "Error: the browser refused the action."
            raise ToolError(text, code=ToolErrorCode.SERVICE_UNAVAILABLE) from error


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise UsageError(f"{program} is not installed, or not on the PATH")
    return path


def _first_line(error: BaseException) -> str:
    return str(getattr(error, "msg", None) or error).partition("\n")[0][:200]


def _processes(folder: str) -> list[int]:
    """The browsers with their profile in a folder, by what Linux tells of processes; elsewhere none are known."""
    mark = f"--user-data-dir={folder}/".encode()
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile, or be somebody else's
            found += [int(process.name)] if mark in (process / "cmdline").read_bytes() else []
    return found


def _kill(folder: str) -> None:
    """End a browser that its driver has left behind, and wait until it no longer writes."""
    deadline = time.monotonic() + _QUIT_S
    while (left := _processes(folder)) and time.monotonic() < deadline:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _remove(folder: str) -> None:
    """Remove it, although a last process of the browser may still be writing."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.05)
