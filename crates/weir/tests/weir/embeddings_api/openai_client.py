"""What the client of OpenAI makes of the gateway whose URL is the argument, printed as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

import openai

MODEL = "all-MiniLM-L6-v2"
BURST_TEXTS = 100


def refusal(call: Callable[[], object], expected: type[openai.APIStatusError]) -> dict[str, str | None]:
    """The fields of the error that `call` must end with."""
    try:
        call()
    except expected as error:
        return {"code": error.code, "param": error.param, "type": error.type}
    raise AssertionError(f"{expected.__name__} was not raised")


async def burst(url: str) -> int:
    """How many texts are answered that are sent at once, one in each request."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        texts = [f"text {number} of a burst of requests" for number in range(BURST_TEXTS)]
        calls = (client.embeddings.create(model=MODEL, input=text) for text in texts)
        replies = await asyncio.gather(*calls, return_exceptions=True)
    return sum(not isinstance(reply, BaseException) for reply in replies)


def main(url: str) -> None:
    """Asks for embeddings, models and refusals."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused")
    texts = ["a weir", "what holds back a river?"]
    reply = client.embeddings.create(model=MODEL, input=texts)
    raw = client.embeddings.with_raw_response.create(model=MODEL, input=texts)
    embeddings = client.embeddings
    seen = {
        "embeddings": [item.embedding for item in reply.data],
        "usage": {"prompt_tokens": reply.usage.prompt_tokens, "total_tokens": reply.usage.total_tokens},
        "is_base64": isinstance(json.loads(raw.text)["data"][0]["embedding"], str),
        "models": [model.id for model in client.models.list()],
        "model": client.models.retrieve(MODEL).id,
        "not_found": refusal(lambda: embeddings.create(model="none", input="a"), openai.NotFoundError),
        "burst_answered": asyncio.run(burst(url)),
        "tokens": refusal(lambda: embeddings.create(model=MODEL, input=[[57668, 53901]]), openai.BadRequestError),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1])
