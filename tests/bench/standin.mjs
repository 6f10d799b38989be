// A server of chat completions, responses and generateContent that outruns every client: fixed latency, optional quotas with
// OpenAI's headers, and counts. It reads the request, so that a client that sends nothing useful
// gets nothing: the answer repeats the length of the body.
//
// node standin.mjs '{"latency_ms":0,"rpm":0,"tpm":0,"burst_s":10,"charge_rejected":false}'
// Prints one JSON line {"ready":true,"port":N}; ends when its standard input closes.
// GET /stats gives the counts, POST /set merges new settings and resets the counts.
import http from "node:http";

const settings = {
  latency_ms: 0, ms_per_token: 0, output_tokens: 20, rpm: 0, tpm: 0, burst_s: 10,
  charge_rejected: false, gate_model: "", gate_s: 0, reasoning: "",
  ...JSON.parse(process.argv[2] ?? "{}"),
};
const filler = "The rota for next week is fine with me, and I can swap a shift if it helps. ";
let counts, buckets, began;

function reset() {
  counts = { received: 0, answered: 0, rejected: 0, in_flight: 0, max_in_flight: 0, tokens: 0 };
  buckets = {};
  began = performance.now();
}
reset();

function bucket(model) {
  if (!buckets[model]) {
    buckets[model] = {
      requests: settings.rpm * settings.burst_s / 60,
      tokens: settings.tpm * settings.burst_s / 60,
      at: performance.now(),
    };
  }
  const own = buckets[model], now = performance.now(), span = (now - own.at) / 60000;
  own.requests = Math.min(settings.rpm * settings.burst_s / 60, own.requests + span * settings.rpm);
  own.tokens = Math.min(settings.tpm * settings.burst_s / 60, own.tokens + span * settings.tpm);
  own.at = now;
  return own;
}

function send(response, status, body, headers) {
  counts.in_flight -= 1;
  response.writeHead(status, {
    "content-type": "application/json", "content-length": Buffer.byteLength(body), ...headers,
  });
  response.end(body);
}

function reject(response, message, wait_ms, headers) {
  counts.rejected += 1;
  const error = { message, type: "tokens", code: "rate_limit_exceeded" };
  send(response, 429, JSON.stringify({ error }), {
    ...headers, "retry-after-ms": String(Math.max(1, Math.ceil(wait_ms))),
  });
}

function quota(model, cost, response) {
  const own = bucket(model);
  const headers = {
    ...(settings.rpm && {
      "x-ratelimit-limit-requests": String(settings.rpm),
      "x-ratelimit-remaining-requests": String(Math.max(0, Math.floor(own.requests - 1))),
    }),
    ...(settings.tpm && {
      "x-ratelimit-limit-tokens": String(settings.tpm),
      "x-ratelimit-remaining-tokens": String(Math.max(0, Math.floor(own.tokens - cost))),
    }),
  };
  const waits = [
    settings.rpm && own.requests < 1 ? (1 - own.requests) / settings.rpm * 60000 : 0,
    settings.tpm && own.tokens < cost ? (cost - own.tokens) / settings.tpm * 60000 : 0,
  ];
  const wait = Math.max(...waits);
  if (wait > 0) {
    if (settings.charge_rejected && settings.rpm) own.requests = Math.max(0, own.requests - 1);
    reject(response, "quota", wait, headers);
    return null;
  }
  own.requests -= 1;
  own.tokens -= cost;
  return headers;
}

function form(url, body, text, input, output) {
  if (url.endsWith(":generateContent")) {
    return {
      candidates: [{ content: { role: "model", parts: [{ text }] }, finishReason: "STOP", index: 0 }],
      usageMetadata: {
        promptTokenCount: input, candidatesTokenCount: output, totalTokenCount: input + output,
      },
      modelVersion: "standin", responseId: "standin-" + counts.received,
    };
  }
  if (url.endsWith("/responses")) {
    return {
      id: "resp_" + counts.received, object: "response", created_at: 1700000000,
      status: "completed", error: null, incomplete_details: null, model: body.model,
      output: [{
        type: "message", id: "msg_" + counts.received, status: "completed", role: "assistant",
        content: [{ type: "output_text", text, annotations: [] }],
      }],
      usage: {
        input_tokens: input, input_tokens_details: { cached_tokens: 0 }, output_tokens: output,
        output_tokens_details: { reasoning_tokens: 0 }, total_tokens: input + output,
      },
    };
  }
  return {
    id: "chatcmpl-" + counts.received, object: "chat.completion", created: 1700000000,
    model: body.model,
    choices: [{
      index: 0, finish_reason: "stop", logprobs: null,
      message: { role: "assistant", content: text, refusal: null },
    }],
    usage: {
      prompt_tokens: input, completion_tokens: output, total_tokens: input + output,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
    system_fingerprint: "standin",
  };
}

const paths = ["/chat/completions", "/responses", ":generateContent"];

function answer(request, raw, response) {
  const body = JSON.parse(raw);
  if (body.model === settings.gate_model && performance.now() - began < settings.gate_s * 1000) {
    reject(response, "gated", settings.gate_s * 1000 - (performance.now() - began), {});
    return;
  }
  const input = Math.ceil(raw.length / 4), output = settings.output_tokens;
  let headers = {};
  if (settings.rpm || settings.tpm) {
    headers = quota(body.model, input + output, response);
    if (headers === null) return;
  }
  const text = filler.repeat(Math.ceil(output / 18)) + raw.length;
  const reply = JSON.stringify(form(request.url.split("?")[0], body, text, input, output));
  const finish = () => {
    counts.answered += 1;
    counts.tokens += input + output;
    send(response, 200, reply, headers);
  };
  const wait = settings.latency_ms + settings.ms_per_token * output;
  if (wait > 0) setTimeout(finish, wait);
  else finish();
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const raw = parts.length === 1 ? parts[0].toString() : Buffer.concat(parts).toString();
    if (request.method === "POST" && paths.some((path) => request.url.split("?")[0].endsWith(path))) {
      counts.received += 1;
      counts.in_flight += 1;
      counts.max_in_flight = Math.max(counts.max_in_flight, counts.in_flight);
      answer(request, raw, response);
      return;
    }
    if (request.url === "/set") {
      Object.assign(settings, JSON.parse(raw));
      reset();
    }
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...counts, settings, seconds: (performance.now() - began) / 1000 }));
  });
});
server.keepAliveTimeout = 120000;
server.requestTimeout = 0;
server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => {
  console.log(JSON.stringify({ ready: true, port: server.address().port }));
});
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
