"""A run in a journal: its process dies between a payment and its result, and the next process continues.

This program starts itself again until the run has ended. The first process dies on purpose. The run is in runs.db, and
the payments are in payments.txt. `eagerstream runs show --journal runs.db order-17` shows the run.

Needs: `eagerstream[durable]`.

Usage:
    ANTHROPIC_API_KEY=... python durable.py [MODEL]
    eagerstream serve --script -- python durable.py
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import eagerstream
from eagerstream import RunningCall
from eagerstream.tools import Done, ToolCall
from eagerstream_durable.journal import Journal

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam

PAYMENTS = Path("payments.txt")
IS_WORKER = "DURABLE_WORKER"
QUESTION: MessageParam = {"role": "user", "content": "Pay the invoices 1, 2 and 3, then say that you did."}


def paid(call: ToolCall) -> bool:
    return PAYMENTS.exists() and call.idempotency_key in PAYMENTS.read_text(encoding="utf-8").splitlines()


def recover(call: ToolCall) -> Done | str:
    """Tell a later process whether a call was done whose process died."""
    print("was it paid?", "yes" if paid(call) else "no")
    return Done("paid") if paid(call) else "not done"


@eagerstream.tool(recover=recover)
def pay(invoice: int, call: RunningCall) -> str:
    """Pay an invoice."""
    is_first = not PAYMENTS.exists()
    with PAYMENTS.open("a", encoding="utf-8") as payments:
        payments.write(f"{call.idempotency_key}\n")  # a real service takes the key with the payment
    print("paid invoice", invoice, flush=True)
    if is_first:
        print("this process dies", flush=True)
        os._exit(1)  # nothing is cleaned up, as if it were killed
    return "paid"


async def main(model: str) -> None:
    # With a short lease, the next process does not wait long to see that this one is dead.
    async with (
        AsyncAnthropic() as client,
        Journal("runs.db", lease_s=2) as journal,
        eagerstream.run(
            client, model=model, max_tokens=1024, tools=[pay], messages=[QUESTION], journal=journal, run_id="order-17"
        ) as run,
    ):
        await run.finish()
    print(run.result.status, "after", run.result.turns, "turns")


if __name__ == "__main__":
    if IS_WORKER in os.environ:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
    else:
        command, environment = [sys.executable, *sys.argv], {**os.environ, IS_WORKER: "1"}
        while subprocess.run(command, env=environment, check=False).returncode:  # noqa: S603 - this program
            print("another process continues", flush=True)
