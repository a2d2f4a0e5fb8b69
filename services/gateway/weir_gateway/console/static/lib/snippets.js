// The request of the playground as code to paste. The key is always read from WEIR_API_KEY.

const KEY = "WEIR_API_KEY";

/** As a command of a shell. */
export function curl(origin, body) {
  return [
    `curl -sN ${origin}/v1/chat/completions \\`,
    `  -H "authorization: Bearer $${KEY}" \\`,
    '  -H "content-type: application/json" \\',
    `  -d ${shellQuoted(JSON.stringify(body, null, 2))}`,
  ].join("\n");
}

/** As Python with OpenAI's package. */
export function python(origin, body) {
  const { messages, model, stream_options: _, top_k: topK, ...rest } = body;
  const extra = topK === undefined ? [] : [`    extra_body={"top_k": ${topK}},`];
  return [
    "import os",
    "",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${literal(`${origin}/v1`)}, api_key=os.environ["${KEY}"])`,
    "stream = client.chat.completions.create(",
    `    model=${literal(model)},`,
    `    messages=${listOf(
      messages.map(({ role, content }) => `{"role": ${literal(role)}, "content": ${literal(content)}}`),
      "    ",
    )},`,
    ...Object.entries(rest).map(([name, value]) => `    ${name}=${literal(value)},`),
    '    stream_options={"include_usage": True},',
    ...extra,
    ")",
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
    "print()",
  ].join("\n");
}

/** As Python with the generated gRPC stubs. */
export function grpc(host, body, encrypted) {
  const { messages, model, max_tokens: most, temperature, top_p: topP, top_k: topK, seed, stop } = body;
  const sampling = Object.entries({ temperature, top_p: topP, top_k: topK, seed, stop }).filter(
    ([, value]) => value !== undefined,
  );
  const channel = encrypted
    ? "grpc.secure_channel(target, grpc.ssl_channel_credentials())"
    : "grpc.insecure_channel(target)";
  return [
    "import os",
    "",
    "import grpc",
    "from weir.common.v1.sampling_pb2 import SamplingParams",
    "from weir.gateway.v1 import inference_service_pb2 as wire",
    "from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub",
    "",
    `target = os.environ.get("WEIR_TARGET", ${literal(host)})  # the gateway's gRPC door`,
    "request = wire.GenerateRequest(",
    `    model=${literal(model)},`,
    "    chat=wire.ChatInput(",
    `        messages=${listOf(
      messages.map(
        ({ role, content }) => `wire.ChatMessage(role=${literal(role)}, content=${literal(content)})`,
      ),
      "        ",
    )}`,
    "    ),",
    `    max_new_tokens=${most ?? 512},`,
    `    sampling=SamplingParams(${sampling.map(([name, value]) => `${name}=${literal(value)}`).join(", ")}),`,
    "    stream=True,",
    ")",
    `metadata = [("authorization", f"Bearer {os.environ['${KEY}']}")]`,
    `with ${channel} as channel:`,
    "    for response in InferenceServiceStub(channel).Generate(request, metadata=metadata):",
    '        print(response.delta.text, end="", flush=True)',
    "print()",
  ].join("\n");
}

function listOf(items, indent) {
  return items.length ? `[\n${items.map((item) => `${indent}    ${item},`).join("\n")}\n${indent}]` : "[]";
}

/** A literal of Python; JSON's strings are Python's, but for what lies beyond two bytes. */
function literal(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
