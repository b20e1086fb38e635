// A stock OpenAI client against a running server: node client_test.mjs http://127.0.0.1:8000/v1
// Holds for any model. OPENAI_API_KEY is used when the server wants one.
import assert from "node:assert/strict";
import OpenAI from "openai";

const baseURL = process.argv[2];
if (!baseURL) {
  console.error("usage: client_test.mjs BASE_URL");
  process.exit(2);
}
const apiKey = process.env.OPENAI_API_KEY ?? "none";
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 120_000 });
const prompt = "Once upon a time";
const greedy = { temperature: 0, max_tokens: 8 };
const messages = [{ role: "user", content: "Say something." }];
let model;
let chats = true; // a model without a chat template answers 422

const tests = {
  async "models are listed and retrieved"() {
    const list = await client.models.list();
    assert.equal(list.object, "list");
    model = list.data[0].id;
    const card = await client.models.retrieve(model);
    assert.equal(card.id, model);
    assert.equal(card.object, "model");
  },

  async "a completion has text, usage and a request id"() {
    const answer = await client.completions.create({ model, prompt, ...greedy });
    assert.match(answer.id, /^cmpl-/);
    assert.equal(answer.object, "text_completion");
    assert.equal(answer.model, model);
    assert.equal(answer.choices.length, 1);
    assert.equal(typeof answer.choices[0].text, "string");
    assert.ok(["stop", "length"].includes(answer.choices[0].finish_reason));
    assert.ok(answer.usage.prompt_tokens > 0);
    assert.ok(answer.usage.completion_tokens >= 1 && answer.usage.completion_tokens <= 8);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.ok(answer._request_id);
  },

  async "a streamed completion is the blocking one"() {
    const blocking = await client.completions.create({ model, prompt, ...greedy });
    const stream = await client.completions.create({
      model, prompt, ...greedy, stream: true, stream_options: { include_usage: true },
    });
    let text = "";
    let reason = null;
    let usage = null;
    for await (const chunk of stream) {
      assert.equal(chunk.object, "text_completion");
      for (const choice of chunk.choices) {
        text += choice.text;
        reason = choice.finish_reason ?? reason;
      }
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, blocking.choices[0].text);
    assert.equal(reason, blocking.choices[0].finish_reason);
    assert.deepEqual(usage, blocking.usage);
  },

  async "the same seed gives the same text, and choices are numbered"() {
    const ask = () => client.completions.create({ model, prompt, max_tokens: 8, temperature: 1, seed: 17, n: 3 });
    const [first, second] = [await ask(), await ask()];
    assert.deepEqual(first.choices.map((choice) => choice.index), [0, 1, 2]);
    assert.deepEqual(first.choices.map((choice) => choice.text), second.choices.map((choice) => choice.text));
  },

  async "prompts may be lists and token ids"() {
    const texts = await client.completions.create({ model, prompt: [prompt, "The end"], ...greedy });
    assert.deepEqual(texts.choices.map((choice) => choice.index), [0, 1]);
    const ids = await client.completions.create({ model, prompt: [[1, 2, 3], [4, 5]], ...greedy });
    assert.equal(ids.usage.prompt_tokens, 5);
    const one = await client.completions.create({ model, prompt: [1, 2, 3], ...greedy });
    assert.equal(one.choices[0].text, ids.choices[0].text);
  },

  async "echo and logprobs have the legacy shape"() {
    const answer = await client.completions.create({ model, prompt, ...greedy, echo: true, logprobs: 2 });
    const { text, logprobs } = answer.choices[0];
    assert.ok(text.startsWith(prompt));
    const count = logprobs.tokens.length;
    assert.equal(logprobs.token_logprobs.length, count);
    assert.equal(logprobs.top_logprobs.length, count);
    assert.equal(logprobs.text_offset.length, count);
    assert.equal(logprobs.token_logprobs[0], null);
    for (const value of logprobs.token_logprobs.slice(1)) assert.ok(value <= 0);
    for (const top of logprobs.top_logprobs.slice(1)) assert.ok(Object.keys(top).length >= 1);
    for (let i = 1; i < count; ++i) assert.ok(logprobs.text_offset[i] >= logprobs.text_offset[i - 1]);
  },

  async "a stop string ends the text before it"() {
    const free = await client.completions.create({ model, prompt, ...greedy });
    const text = free.choices[0].text;
    const stop = [...text].slice(2, 4).join("");
    if (!stop) return;
    const stopped = await client.completions.create({ model, prompt, ...greedy, stop: [stop] });
    assert.equal(stopped.choices[0].text, text.slice(0, text.indexOf(stop)));
    assert.equal(stopped.choices[0].finish_reason, "stop");
  },

  async "a chat answers"() {
    let answer;
    try {
      answer = await client.chat.completions.create({ model, messages, ...greedy });
    } catch (error) {
      assert.ok(error instanceof OpenAI.UnprocessableEntityError, String(error));
      chats = false;
      return;
    }
    assert.match(answer.id, /^chatcmpl-/);
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.equal(typeof answer.choices[0].message.content, "string");
  },

  async "a streamed chat is the blocking one"() {
    if (!chats) return;
    const blocking = await client.chat.completions.create({ model, messages, ...greedy });
    const stream = await client.chat.completions.create({ model, messages, ...greedy, stream: true });
    const roles = [];
    let text = "";
    for await (const chunk of stream) {
      assert.equal(chunk.object, "chat.completion.chunk");
      for (const { delta } of chunk.choices) {
        if (delta.role) roles.push(delta.role);
        text += delta.content ?? "";
      }
    }
    assert.deepEqual(roles, ["assistant"]);
    assert.equal(text, blocking.choices[0].message.content);
  },

  async "the client's own accumulation of a stream works"() {
    if (!chats) return;
    const blocking = await client.chat.completions.create({ model, messages, ...greedy });
    const final = await client.chat.completions.stream({ model, messages, ...greedy }).finalChatCompletion();
    assert.equal(final.choices[0].message.content ?? "", blocking.choices[0].message.content);
    assert.equal(final.choices[0].finish_reason, blocking.choices[0].finish_reason);
  },

  async "chat logprobs name tokens, bytes and alternatives"() {
    if (!chats) return;
    const answer = await client.chat.completions.create({
      model, messages, ...greedy, logprobs: true, top_logprobs: 3,
    });
    for (const entry of answer.choices[0].logprobs.content) {
      assert.equal(typeof entry.token, "string");
      assert.ok(entry.logprob <= 0);
      assert.ok(Array.isArray(entry.bytes));
      assert.equal(entry.top_logprobs.length, 3);
      assert.ok(entry.top_logprobs[0].logprob >= entry.top_logprobs[2].logprob);
    }
  },

  async "errors are the client's own classes"() {
    const failing = (request) => client.completions.create({ model, prompt, ...greedy, ...request });
    await assert.rejects(failing({ model: "no-such-model" }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, "model_not_found");
      return true;
    });
    await assert.rejects(failing({ temperature: -9 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "temperature");
      assert.match(error.message, /at least 0/);
      assert.ok(error.requestID);
      return true;
    });
    await assert.rejects(failing({ max_tokens: 1_000_000_000 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.code, "context_length_exceeded");
      return true;
    });
    await assert.rejects(failing({ suffix: "x" }), OpenAI.UnprocessableEntityError);
    if (process.env.OPENAI_API_KEY) {
      const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
      await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
    }
  },

  async "a stream may be abandoned"() {
    const stream = await client.completions.create({ model, prompt, temperature: 0, max_tokens: 64, stream: true });
    for await (const _ of stream) break;
    const after = await client.completions.create({ model, prompt, ...greedy });
    assert.equal(after.choices.length, 1);
  },

  async "many at once get their own answers"() {
    const alone = await client.completions.create({ model, prompt, ...greedy });
    const all = await Promise.all(
      Array.from({ length: 16 }, () => client.completions.create({ model, prompt, ...greedy })),
    );
    for (const answer of all) assert.equal(answer.choices[0].text, alone.choices[0].text);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok   ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAIL ${name}\n${error.stack ?? error}`);
  }
}
console.log(`${Object.keys(tests).length - failed} of ${Object.keys(tests).length} passed`);
process.exit(failed ? 1 : 0);
