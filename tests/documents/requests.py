"""The requests of the document on fine-grained tool streaming, for programs that are not the document's own."""

from __future__ import annotations

from typing import Any, Final

MAKE_FILE: Final[dict[str, Any]] = {
    "name": "make_file",
    "description": "Write text to a file",
    "eager_input_streaming": True,
    "input_schema": {
        "type": "object",
        "properties": {
            "filename": {
                "type": "string",
                "description": "The filename to write text to",
            },
            "lines_of_text": {
                "type": "array",
                "description": "An array of lines of text to write to the file",
            },
        },
        "required": ["filename", "lines_of_text"],
    },
}
MAKE_FILE_REQUEST: Final[dict[str, Any]] = {
    "max_tokens": 65536,
    "model": "claude-opus-4-7",
    "tools": [MAKE_FILE],
    "messages": [
        {
            "role": "user",
            "content": "Can you write a long poem and make a file called poem.txt?",
        }
    ],
}

GET_WEATHER: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "Get current weather for a city",
    "eager_input_streaming": True,
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
GET_WEATHER_REQUEST: Final[dict[str, Any]] = {
    "model": "claude-opus-4-7",
    "max_tokens": 1024,
    "tools": [GET_WEATHER],
    "messages": [{"role": "user", "content": "Weather in Paris?"}],
}
