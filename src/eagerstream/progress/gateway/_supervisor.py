"""`Supervisor`: uvicorn's supervisor of workers, made for workers that have runs."""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType
from typing import Final

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

_PAUSE_S: Final = 1.0
"""Pause before a worker that could not start is tried again."""
_log = logging.getLogger("uvicorn.error")


class Supervisor(Multiprocess):
    """Keeps workers alive, and restarts one after the other on SIGHUP."""

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended or do not answer. End if one cannot start and no other serves.

        uvicorn itself would end all workers, with their runs, if one cannot be replaced.
        """
        for process in self.processes:
            # With a copy of the other end of its pipe, one that has just died would be waited for as if it were busy.
            process.child_conn.close()
        for index, process in enumerate(self.processes):
            if process.is_alive(timeout=self.config.timeout_worker_healthcheck):
                continue
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                _log.error("Child process [%s] failed to start.", process.pid)
                if not any(other.is_ready() for other in self.processes):
                    self.should_exit.set()
                self.should_exit.wait(_PAUSE_S)
            if self.should_exit.is_set():
                return
            _log.info("Child process [%s] died", process.pid)
            self.processes[index] = Process(self.config, self.sockets)
            self.processes[index].start()

    def restart_all(self) -> None:
        """Restart the workers. SIGTERM and SIGINT end all of them at once.

        uvicorn itself looks at signals after the restart, which takes the grace of each worker.
        """
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            super().restart_all()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.should_exit.set()
        for process in self.processes:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGTERM)
