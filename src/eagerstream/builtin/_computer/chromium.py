"""A dedicated Chromium: started in an empty folder, driven over DevTools, and removed with all that it wrote."""

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
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ...errors import MissingExtraError, ToolError, UsageError
from ...tools import ToolErrorCode
from .origins import NowhereElse, Origin
from .tabs import Tabs, devtools

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
    """One browser, for one thread at a time. All methods block.

    Args:
        program: Chromium, as a name on the `PATH` or a path.
        driver: `chromedriver` of the same version, as a name or a path.
        size: Width and height of the page in pixels.
        origins: The origins that it may reach.
        timeout_s: Time limit of one command in seconds.
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
        self._tabs: Tabs | None = None
        self._notes: list[str] = []  # of the current step

    def start(self, url: str) -> None:
        """Start the browser and open a page.

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
        if commands.level == logging.NOTSET:  # at DEBUG it logs typed text: only if the user chose that level
            commands.setLevel(logging.INFO)
        self._folder = tempfile.mkdtemp(prefix="eagerstream-chromium-")
        self._network = NowhereElse(self._origins)
        # All its files are in the folder, including those beside the profile. Temporary files are, too, unless the
        # path of a socket among them would be too long.
        env = {**os.environ, "HOME": self._folder}
        if len(self._folder) <= _MAX_TMPDIR_CHARS:
            env["TMPDIR"] = self._folder
        self._service = Service(driver, env=env, popen_kw={"start_new_session": True})  # not reached by Ctrl-C
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
            # Slightly longer than chromedriver's own wait for the page, so that chromedriver can report the timeout.
            settings.timeout = int(self._timeout_s) + 2
            self._tabs = Tabs(self._driver, network=self._network, url=url, size=self._size)
            self._tabs.open()
        except (WebDriverException, HTTPError, OSError) as error:
            raise UsageError(f"the browser did not open {url}: {_first_line(error)}") from error

    def stop(self) -> None:
        """End the browser in any state, and remove its folder. This takes a few seconds at most."""
        if self._driver is not None and self._busy.acquire(timeout=1.0):  # else a command hangs, and `quit` would, too
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
            if process.stdin is not None:  # `stop` leaves it open if it fails
                process.stdin.close()
        if self._network is not None:
            self._network.close()
        if self._folder:
            _kill(self._folder)
            _remove(self._folder)

    def run(self, step: Callable[[Chromium], T]) -> tuple[T | None, str | None]:
        """Run a step on the page in front. Only one step runs at a time.

        Returns:
            The step's result and a note for the model. The result is `None` if the step was interrupted, or if the page
            left the allowed origins. The note has events that no screenshot shows: a closed tab, a page that was taken
            back, or the text of a dialog, which is dismissed. It is `None` if there are none.

        Raises:
            ToolError: The browser has ended, does not respond, or refuses a command. The text is for the model.
        """
        with self._busy, self._translated():
            driver, tabs = self._running(), self._tabs
            assert tabs is not None
            self._notes = []
            done: T | None = None
            with self._noted():
                self._notes += tabs.stay()  # a page can also leave between two actions
                done = step(self)
                self._dismiss_dialog(driver)
            with self._noted():
                if left := tabs.stay():
                    self._notes += left
                    done = None
            return done, "\n".join(dict.fromkeys(self._notes)) or None

    def travel(self, way: Literal[-1, 1]) -> None:
        """Go back (-1) or forward (1) to the next allowed page. Call it inside `run`."""
        assert self._tabs is not None
        if not self._tabs.travel(way):
            self._notes.append(f"There is no page to go {'back' if way == -1 else 'forward'} to.")

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol. Call it inside `run`."""
        return devtools(self._running(), method, **parameters)

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
        # By default, chromedriver disables Chromium's protection against unrequested windows.
        options.add_experimental_option("excludeSwitches", ["disable-popup-blocking"])
        preferences = {"download_restrictions": _DENY_DOWNLOADS, **self._network.preferences()}
        options.add_experimental_option("prefs", preferences)
        # Commands wait until a loading page is usable. They do not wait for its images.
        options.page_load_strategy = "eager"
        return options

    def _running(self) -> WebDriver:
        if self._driver is None:
            raise ToolError("Error: the browser is not running.", code=ToolErrorCode.SERVICE_UNAVAILABLE)
        return self._driver

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note events that interrupt a step and are not errors."""
        from selenium.common.exceptions import NoSuchWindowException, UnexpectedAlertPresentException

        try:
            yield
        except UnexpectedAlertPresentException as error:  # chromedriver dismisses it itself
            self._note_dialog(error.alert_text or "")
        except NoSuchWindowException:
            self._notes.append("The tab was closed.")

    def _dismiss_dialog(self, driver: WebDriver) -> None:
        from selenium.common.exceptions import NoAlertPresentException

        with suppress(NoAlertPresentException):
            alert = driver.switch_to.alert
            text = alert.text
            alert.dismiss()
            self._note_dialog(text)

    def _note_dialog(self, text: str) -> None:
        shown = " ".join(text.split())[:_MAX_DIALOG_CHARS]
        self._notes.append(f"The page opened a dialog, which was dismissed: {shown}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors for the model. The driver's texts contain addresses of this machine."""
        from selenium.common.exceptions import InvalidSessionIdException, TimeoutException, WebDriverException
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        try:
            yield
        except (TimeoutException, ReadTimeoutError) as error:
            raise ToolError(
                f"Error: the page did not answer within {self._timeout_s:g} seconds.", code=ToolErrorCode.TIMEOUT
            ) from error
        except (HTTPError, OSError) as error:  # the driver has ended
            raise ToolError(_ENDED, code=ToolErrorCode.SERVICE_UNAVAILABLE) from error
        except WebDriverException as error:
            line = _first_line(error)
            if "crash" in line:
                text = "Error: the page has crashed."
            elif (
                "disconnected" in line
                or isinstance(error, InvalidSessionIdException)
                or not _processes(self._folder, _BROWSER)
            ):
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


_BROWSER: Final = "--user-data-dir="
_CRASH_HANDLER: Final = "--database="  # survives a killed browser


def _processes(folder: str, *options: str) -> list[int]:
    """Return the processes started with an option in a folder. They are found in `/proc`, so only on Linux."""
    marks = [f"{option}{folder}/".encode() for option in options]
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process may end meanwhile, or belong to another user
            command = (process / "cmdline").read_bytes()
            found += [int(process.name)] if any(mark in command for mark in marks) else []
    return found


def _kill(folder: str) -> None:
    """Kill a browser that its driver left running, and wait until it stops writing."""
    deadline = time.monotonic() + _QUIT_S
    while (left := _processes(folder, _BROWSER, _CRASH_HANDLER)) and time.monotonic() < deadline:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _remove(folder: str) -> None:
    """Remove the folder. A last process of the browser may still be writing, so this retries."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.05)
