// What the client of OpenAI for Node gets of a language model from the gateway whose URL is the first argument, printed as
// JSON; the other argument is the prompt. CommonJS, so that NODE_PATH names the folder of the package.
"use strict";

const { OpenAI, APIError, NotFoundError } = require("openai");

async function main(url, prompt) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "unused" });
  const messages = [{ role: "user", content: prompt }];

  const whole = async (model) => {
    const reply = await client.chat.completions.create({ model, messages });
    const { message, finish_reason } = reply.choices[0];
    return { text: message.content, finish: finish_reason, usage: reply.usage };
  };

  const stream = async (model, more, headers = {}) => {
    const seen = { parts: [], finish: null, usage: null, error: null };
    try {
      const chunks = await client.chat.completions.create({ model, messages, stream: true, ...more }, { headers });
      for await (const chunk of chunks) {
        seen.usage ??= chunk.usage;
        for (const choice of chunk.choices) {
          if (choice.delta.content) seen.parts.push(choice.delta.content);
          seen.finish ??= choice.finish_reason;
        }
      }
    } catch (error) {
      seen.error = { isApiError: error instanceof APIError, isNotFound: error instanceof NotFoundError, code: error.code };
    }
    return seen;
  };

  const responses = async () => {
    const seen = { parts: [], text: null, status: null, usage: null };
    for await (const event of await client.responses.create({ model: "mock/any", input: prompt, stream: true })) {
      if (event.type === "response.output_text.delta") seen.parts.push(event.delta);
      if (event.type === "response.completed") {
        seen.status = event.response.status;
        seen.usage = event.response.usage;
      }
    }
    seen.text = (await client.responses.create({ model: "mock/any", input: prompt })).output_text;
    return seen;
  };

  const of = async (model) => ({
    whole: await whole(model),
    stream: await stream(model, { stream_options: { include_usage: true } }),
    broken: await stream(model, {}, { "x-mock-drop-midstream": "1" }),
  });
  const seen = {
    "mock/any": await of("mock/any"),
    "claude/any": await of("claude/any"),
    responses: await responses(),
    none: await stream("none", {}),
  };
  console.log(JSON.stringify(seen));
}

main(process.argv[2], process.argv[3]);
