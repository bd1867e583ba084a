"""`Supervisor`: uvicorn's supervisor of workers, which notices their end and its own signals at once."""

from __future__ import annotations

import os
import signal
from types import FrameType

from uvicorn.supervisors import Multiprocess


class Supervisor(Multiprocess):
    """Keeps workers alive, and restarts one after the other on SIGHUP."""

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended, or that do not answer."""
        # With a copy of the other end of its pipe, a worker that has just died would be waited for as if it were busy.
        for process in self.processes:
            process.child_conn.close()
        super().keep_subprocess_alive()

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
