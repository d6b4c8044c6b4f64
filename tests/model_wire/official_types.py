"""Validates every event that a server sends against the official client libraries' own types.

Arguments: the base URL, the wire and the number of requests to make. Prints one line per fault
and ends with 1 if there was any.
"""

import json
import sys
import urllib.request

from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

WIRES = {
    "responses": TypeAdapter(ResponseStreamEvent),
    "chat/completions": TypeAdapter(ChatCompletionChunk),
    "messages": TypeAdapter(RawMessageStreamEvent),
}


def events(base, path):
    body = {"model": "m", "input": [], "messages": [], "max_tokens": 1, "instructions": "i"}
    request = urllib.request.Request(
        f"{base}/{path}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    for block in text.split("\n\n"):
        for line in block.split("\n"):
            if line.startswith("data: ") and line != "data: [DONE]":
                yield json.loads(line[len("data: "):])


def main():
    base, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    adapter = WIRES[path]
    count, faults = 0, 0
    for _ in range(rounds):
        for event in events(base, path):
            if path == "messages" and event.get("type") == "ping":
                continue  # documented, and left out of the library's types
            count += 1
            try:
                adapter.validate_python(event)
            except Exception as error:  # noqa: BLE001: every fault is told
                faults += 1
                print(f"{path}: {event.get('type')}: {error}")
    print(f"{count} events, {faults} faults")
    sys.exit(1 if faults or count == 0 else 0)


main()
