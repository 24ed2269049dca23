/** Providers' servers whose answers are malformed, or hold invisible text. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serveRaw } from '../fixtures/providers/raw.ts';
import { dataOf } from '../support/daemon.ts';
import { type ProviderArena, startProvider } from '../support/providers.ts';

const folder = fileURLToPath(new URL('../fixtures/providers', import.meta.url));
const TOKEN = 'a-token-of-forty-characters';
const RAW = {
  command: [process.execPath, `${folder}/raw.ts`],
  reads: [folder],
  env: { TOKEN, MODE: { value: 'in-the-open' } },
};

const MALFORMED = [
  '{"jsonrpc":"2.0","id":ID}',
  '{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}',
  '{"jsonrpc":"2.0","id":ID,"error":"no"}',
  '{"jsonrpc":"2.0","id":ID,"result":{"content":"a text"}}',
  '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te',
];

/** Characters that a terminal or a model interprets differently from how they look. */
const UNSEEN = 'a\u001b[8mb\u202ec\u200bd\u{e0041}e\u0007f\u2028g';
const SEEN = 'a[8mbcdefg';

async function startAll(): Promise<{ it: ProviderArena } & AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  const json = stack.use(await serveRaw({ plain: true }));
  const stream = stack.use(await serveRaw());
  const providers = { json: { url: json.url }, stream: { url: stream.url } };
  const it = stack.use(await startProvider(RAW, { config: { providers } }));
  for (const name of ['json', 'stream']) await it.ready(name);
  return { it, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

let all: Awaited<ReturnType<typeof startAll>>;
let it: ProviderArena;
beforeAll(async () => {
  all = await startAll();
  it = all.it;
}, 60_000);
afterAll(() => all[Symbol.asyncDispose]());

const result = (value: object) => JSON.stringify({ jsonrpc: '2.0', id: 'ID', result: value }).replace('"ID"', 'ID');
const say = (text: string) => result({ content: [{ type: 'text', text }] });

describe.each(['fix', 'json', 'stream'])('a malformed answer of the provider %s', (name) => {
  test.each(MALFORMED)('ends its call at once as UPSTREAM_FAILED, and no other: %s', async (text) => {
    const { pid } = await it.info(name);
    const from = performance.now();
    expect(await it.error(`${name}__say`, { text }, { timeoutMs: 20_000 })).toMatchObject({ code: 'UPSTREAM_FAILED' });
    expect(performance.now() - from).toBeLessThan(5000);
    expect(await it.text(`${name}__say`, { text: say('x') })).toBe('x');
    expect((await it.info(name)).pid).toBe(pid);
  });
});

test('definitions that are none cost their tools and not the provider', async () => {
  const states = Object.groupBy((await it.info()).tools, (one) => one.state);
  expect(states.accepted?.map((one) => one.tool).toSorted()).toEqual(['numbered', 'say']);
  expect(states.refused?.map((one) => one.tool).toSorted()).toEqual(['?', '?', '?', 'listy', 'typeless']);
});

test('an answer loses what nobody sees, wherever it stands', async () => {
  const answer = result({
    content: [
      { type: 'text', text: UNSEEN },
      { type: 'resource', resource: { uri: `file:///${UNSEEN}`, text: UNSEEN, mimeType: `text/${UNSEEN}` } },
      { type: 'resource_link', uri: 'file:///x', name: UNSEEN, description: UNSEEN },
    ],
    structuredContent: { [UNSEEN]: [UNSEEN, { deep: UNSEEN }] },
  });
  expect(await dataOf(it.client.call('fix__say', { text: answer }) as never)).toEqual({
    content: [
      { type: 'text', text: SEEN },
      { type: 'resource', uri: `file:///${SEEN}`, text: SEEN, mimeType: `text/${SEEN}` },
      { type: 'resource_link', uri: 'file:///x', name: SEEN, description: SEEN },
    ],
    structured: { [SEEN]: [SEEN, { deep: SEEN }] },
  });
});

test('a plain value of `env` is a secret as one that was found is, with unseen characters in it too; `{ value }` is none', async () => {
  expect(await it.text('fix__say', { text: say(`it is ${TOKEN}, in-the-open`) })).toBe('it is [secret], in-the-open');
  const hidden = `${TOKEN.slice(0, 5)}\u200b${TOKEN.slice(5)}`;
  expect(await it.text('fix__say', { text: say(hidden) })).toBe('[secret]');
  const error = await it.error('fix__say', {
    text: result({ content: [{ type: 'text', text: hidden }], isError: true }),
  });
  expect(error.message).toContain('[secret]');
});
