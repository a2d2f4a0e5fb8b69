// Does what a test orders with OpenAI's SDK for Node: a JSON object a line in, one a line out.
import { createInterface } from "node:readline";
import OpenAI, { toFile } from "openai";

const deeds = {
  chat: (client, { request }) => client.chat.completions.create(request),
  completion: (client, { request }) => client.completions.create(request),
  parse: (client, { request }) => client.chat.completions.parse(request),
  stream: async (client, { request }) => collect(await client.chat.completions.create(request)),
  leave: async (client, { request }) => {
    for await (const chunk of await client.chat.completions.create(request)) {
      if (chunk.choices[0]?.delta?.content) return chunk;
    }
    return null;
  },
  abort: async (client, { request, after_ms }) => {
    const signal = AbortSignal.timeout(after_ms);
    return client.chat.completions.create(request, { signal });
  },
  models: async (client) => collect(await client.models.list()),
  model: (client, { name }) => client.models.retrieve(name),
  headers: async (client, { request }) => {
    const { response, request_id } = await client.chat.completions.create(request).withResponse();
    return { request_id, headers: Object.fromEntries(response.headers) };
  },
  respond: (client, { request }) => client.responses.create(request),
  respond_streamed: async (client, { request }) => collect(await client.responses.create(request)),
  batch: async (client, { text, request }) => {
    const file = await client.files.create({
      file: await toFile(Buffer.from(text), "batch.jsonl"),
      purpose: "batch",
    });
    return client.batches.create({ ...request, input_file_id: file.id });
  },
  read_batch: (client, { of }) => client.batches.retrieve(of),
  read_file: async (client, { of }) => (await client.files.content(of)).text(),
};

async function collect(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

function told(error) {
  const { status = null, code = null, param = null, type = null, requestID = null } = error;
  return { class: error.constructor.name, message: error.message, status, code, param, type, requestID };
}

async function obey(line) {
  const order = JSON.parse(line);
  const client = new OpenAI({ maxRetries: 0, timeout: 20_000, ...order.client });
  try {
    return { id: order.id, result: await deeds[order.do](client, order) };
  } catch (error) {
    return { id: order.id, error: told(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await obey(line);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
