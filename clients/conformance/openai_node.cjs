// What the client of OpenAI for Node gets from the gateway whose URL is the first argument, printed as JSON; the other
// arguments are the model and the texts, as JSON. CommonJS, so that NODE_PATH names the folder of the package.
"use strict";

const { OpenAI, NotFoundError } = require("openai");

async function main(url, model, texts) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "unused" });
  const embeddings = async (more) => {
    const reply = await client.embeddings.create({ model, input: texts, ...more });
    return reply.data.map((item) => item.embedding);
  };
  const models = [];
  for await (const item of client.models.list()) models.push(item.id);
  let refusal = null;
  try {
    await client.embeddings.create({ model: "none", input: "a" });
  } catch (error) {
    refusal = { isNotFound: error instanceof NotFoundError, code: error.code, param: error.param };
  }
  const seen = {
    default: await embeddings({}),
    float: await embeddings({ encoding_format: "float" }),
    models,
    refusal,
  };
  console.log(JSON.stringify(seen));
}

main(process.argv[2], process.argv[3], JSON.parse(process.argv[4]));
