"""The examples of anthropic-tools that are about APIs, databases and searches, as tools of a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

import eagerstream
from eagerstream.compat.anthropic_tools import (
    BackendSearchTool,
    BaseSearchResult,
    BaseSearchTool,
    BaseTool,
    SQLTool,
)
from eagerstream.loop import RunResult
from eagerstream.testing import ReplayServer, Scenario, reply, text, tool_use
from tests.builtin.support import results
from tests.sites import site
from tests.support import anthropic_client, check_history


async def asked(tool: BaseTool, question: str, input: dict[str, Any], answer: str) -> tuple[RunResult, dict[str, Any]]:
    """A run with one question, one call and one answer; and the definition that was sent."""
    scenario = Scenario(reply(text("Let me look."), tool_use(tool.name, input)), reply(text(answer)))
    messages = [{"role": "user", "content": question}]
    with ReplayServer(scenario) as server, anyio.fail_after(20):
        async with anthropic_client(server.base_url) as client:
            tools = [tool.to_tool()]
            async with eagerstream.run(client, tools=tools, model="m", max_tokens=1024, messages=messages) as run:
                await run.finish()
    check_history(run.result.messages)
    assert run.result.messages[-1]["content"] == [{"type": "text", "text": answer}]
    assert len(server.requests) == 2
    (definition,) = server.requests[0].body["tools"]
    return run.result, definition


# --- an API -----------------------------------------------------------------------------------------------------------

WEATHER = {
    "current_weather_units": {"temperature": "°C", "windspeed": "km/h"},
    "current_weather": {"temperature": 14.5, "windspeed": 9.7},
}


@pytest.fixture
def weather_service() -> Iterator[str]:
    """The two services of the example, on loopback."""
    pages = {
        "/search?q=San+Francisco&format=json&limit=1": json.dumps([{"lat": "37.77", "lon": "-122.42"}]),
        "/search?q=Atlantis&format=json&limit=1": "[]",
        "/v1/forecast?latitude=37.77&longitude=-122.42&current_weather=true": json.dumps({**WEATHER, "elevation": 18}),
    }
    with site(pages) as served:
        yield served.origin


class WeatherTool(BaseTool):
    """Retrieves the weather for a given city."""

    origin: str

    def use_tool(self, city: str) -> dict[str, Any]:
        with httpx.Client(base_url=self.origin, trust_env=False, verify=False) as client:
            places = client.get("/search", params={"q": city, "format": "json", "limit": 1}).json()
            if not places:
                raise ValueError("Could not find lat and long coordinates for given place.")
            place = {"latitude": places[0]["lat"], "longitude": places[0]["lon"], "current_weather": "true"}
            found = client.get("/v1/forecast", params=place).json()
        return {name: found[name] for name in ("current_weather_units", "current_weather")}


def weather_tool(origin: str) -> WeatherTool:
    parameters = [{"name": "city", "type": "str", "description": "The city for which you would like the weather."}]
    tool = WeatherTool("get_weather", "Weather data for a city, including temperature and wind speed.", parameters)
    tool.origin = origin
    return tool


@pytest.mark.anyio
async def test_weather(weather_service: str) -> None:
    """A tool that asks an API; what it returns is sent as JSON."""
    question = "I live in San Francisco, what shold I wear today?"
    answer = "It is 14.5 °C with a light wind: take a jacket."
    result, definition = await asked(weather_tool(weather_service), question, {"city": "San Francisco"}, answer)
    ((content, is_error),) = results(result)
    assert json.loads(content) == WEATHER
    assert not is_error
    assert definition["input_schema"]["required"] == ["city"]


@pytest.mark.anyio
async def test_a_place_without_weather(weather_service: str) -> None:
    """What the tool raises is told to the model, which answers."""
    question, answer = "And in Atlantis?", "I cannot find that place."
    result, _ = await asked(weather_tool(weather_service), question, {"city": "Atlantis"}, answer)
    assert results(result) == [("ValueError: Could not find lat and long coordinates for given place.", True)]


# --- a database -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_sql(tmp_path: Path) -> None:
    """The oldest employee, by way of a connection that is bound to this thread."""
    schema = "CREATE TABLE employee_data (id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER NOT NULL)"
    with closing(sqlite3.connect(tmp_path / "test.db")) as connection:
        connection.execute(schema)
        connection.execute("INSERT INTO employee_data VALUES (1, 'John', 42)")
        connection.execute("INSERT INTO employee_data VALUES (2, 'Jane', 36)")
        connection.commit()
    parameters = [{"name": "sql_query", "type": "str", "description": "The query to run."}]
    with closing(sqlite3.connect(tmp_path / "test.db")) as db_conn:
        tool = SQLTool("execute_sqlite3_query", "Runs a query.", parameters, schema, db_conn, "SQLite")
        query = {"sql_query": "SELECT name, age FROM employee_data ORDER BY age DESC LIMIT 1"}
        result, definition = await asked(tool, "Who is our oldest employee?", query, "John, who is 42.")
    assert results(result) == [('["name", "age"]\n["John", 42]\n(1 row)', False)]
    assert schema in definition["description"]


# --- searches ---------------------------------------------------------------------------------------------------------

PRODUCTS = ["A telescope for young stargazers", "A chemistry set with safe experiments", "A pink umbrella"]
QUESTION = "I want to get my daughter more interested in science. What kind of gifts should I get her?"
ANSWER = "A telescope, for example."
PARAMETERS = [
    {"name": "query", "type": "str", "description": "The search term. Remember to use broad topic keywords."},
    {"name": "n_search_results_to_use", "type": "int", "description": "The number of products to return."},
]


class ProductSearchTool(BaseSearchTool):
    """Searches an index, as the example does Elasticsearch's."""

    def raw_search(self, query: str, n_search_results_to_use: int) -> list[BaseSearchResult]:
        words = query.lower().split()
        found = [text for text in PRODUCTS if any(word in text.lower() for word in words)]
        return [BaseSearchResult(source=str(PRODUCTS.index(text)), content=text) for text in found]


class Products:
    """The same index as a service."""

    async def search(self, query: str, count: int) -> list[BaseSearchResult]:
        await anyio.lowlevel.checkpoint()
        return ProductSearchTool("a", "b", PARAMETERS).raw_search(query, count)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "tool",
    [
        ProductSearchTool("search_products", "Searches products.", PARAMETERS),
        BackendSearchTool("search_products", "Searches products.", PARAMETERS, Products()),
    ],
)
async def test_search(tool: BaseSearchTool) -> None:
    """A search of one's own."""
    input = {"query": "telescope chemistry", "n_search_results_to_use": 1}
    result, definition = await asked(tool, QUESTION, input, ANSWER)
    ((found, is_error),) = results(result)
    assert f"<source>0</source>\n<page_content>\n{PRODUCTS[0]}\n</page_content>" in found
    assert not is_error
    assert list(definition["input_schema"]["properties"]) == ["query", "n_search_results_to_use"]
