"""Feed only the accumulator, from the raw stream of the anthropic client, without asyncio.

The core does no I/O and knows no event loop. Feed it from a framework, a queue or a log file.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python accumulate_yourself.py [MODEL]
    eagerstream serve --script -- python accumulate_yourself.py
"""

import sys

from eagerstream import InputAccumulator, InputDelta, InputStart, InputStop, printable

from anthropic import Anthropic

MAKE_FILE = {
    "name": "make_file",
    "description": "Write text to a file",
    "eager_input_streaming": True,
    "input_schema": {
        "type": "object",
        "properties": {"filename": {"type": "string"}, "lines_of_text": {"type": "array"}},
        "required": ["filename", "lines_of_text"],
    },
}


def main(model: str = "claude-opus-4-7") -> None:
    accumulator = InputAccumulator()
    with Anthropic() as client:
        events = client.messages.create(
            model=model,
            max_tokens=65_536,
            tools=[MAKE_FILE],  # type: ignore[list-item]  # a plain dict, as the API takes it
            messages=[{"role": "user", "content": "Can you write a long poem and make a file called poem.txt?"}],
            stream=True,
        )
        for event in events:  # event objects or plain dicts, both are taken
            for change in accumulator.feed(event):
                match change:
                    case InputStart(input=tool_input):
                        # Called in the middle of the stream, as soon as this one field is finished.
                        tool_input.watch("filename", callback=lambda name: print(f"will write {printable(name)}"))
                    case InputDelta(input=tool_input):
                        print(f"\r{tool_input.chars} characters", end="")
                    case InputStop(input=tool_input):
                        print(f"\n{tool_input.name}: {tool_input.outcome}, {tool_input.chars} characters")
                        print(tool_input.wrapped)


if __name__ == "__main__":
    main(*sys.argv[1:])
