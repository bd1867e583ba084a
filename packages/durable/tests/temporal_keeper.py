"""A workflow that only keeps a run, for the attacks."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from eagerstream_durable.temporal import RunKeeper


@workflow.defn
class Keep(RunKeeper):
    """A run that others drive."""

    @workflow.run
    async def run(self) -> None:
        """Wait until it is terminated."""
        await workflow.wait_condition(lambda: False)
