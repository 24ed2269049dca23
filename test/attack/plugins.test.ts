/** Plugins that try to escape, to get more than they were given, or to attack each other; and what operators are shown of them. */
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { PinError } from '../../src/services/pinned/pin-error.ts';
import { readPlugin } from '../../src/services/plugins/package.ts';
import { pinnedPlugins, readPin } from '../../src/services/plugins/pinned-plugins.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { addPlugin, manifestOf, writePlugin } from '../support/plugin.ts';

const folders: string[] = [];
const written = (plugin: Parameters<typeof writePlugin>[0]): string => {
  folders.push(writePlugin(plugin));
  return folders.at(-1) as string;
};
afterAll(() => {
  for (const it of folders) rmSync(it, { recursive: true });
});

/** A tool that evaluates code with all that a plugin has. */
const EVALUATE = {
  name: 'run',
  tier: 'write',
  capabilities: ['fs.read'],
  input: { type: 'object', properties: { code: { type: 'string', description: 'Code.' } }, required: ['code'] },
  limits: { memoryMb: 32 },
};
/** Retries for time bounds, since the machine may be busy. */
const BUSY = { retry: 3 };
const TIMEOUT_MS = 500;
/** The same tool with a shorter time limit. */
const SHORT = { ...EVALUATE, name: 'short', export: 'run', limits: { memoryMb: 32, timeoutMs: TIMEOUT_MS } };
const MAIN = `// Of the realm, not of this function: compartments take no other.
export async function run({ code }, context) {
  const { tools } = context;
  const value = await (0, eval)('(async (context, tools) => {' + code + '\\n})')(context, tools);
  return value === undefined ? {} : { value };
}
`;

/** Each returns what it found of the machine, or of what it was not given. */
const ESCAPES = [
  [
    'globals of Node',
    'return [typeof process, typeof require, typeof fetch, typeof Buffer, typeof setImmediate, typeof globalThis.process]',
  ],
  ['the constructor of what it was given', 'return context.tools.file_read.constructor("return typeof process")()'],
  ['the constructor of a host function', 'return context.console.log.constructor("return typeof process")()'],
  [
    'the prototype chain of the context',
    'return Object.getPrototypeOf(context).constructor.constructor("return typeof process")()',
  ],
  [
    'an error of a call',
    'try { await tools.file_read({ path: 5 }) } catch (error) { return error.constructor.constructor("return typeof process")() }',
  ],
  [
    'frames of the stack',
    'Error.prepareStackTrace = (_, frames) => frames.map((it) => typeof it.getThis?.()?.process); return new Error("x").stack',
  ],
  ['the caller of a function', 'return (function f() { return f.caller?.constructor("return typeof process")() })()'],
  [
    'the result of a call',
    'return (await tools.file_read({ path: "notes.txt" })).constructor.constructor("return typeof process")()',
  ],
  ['dynamic imports', 'return await import("node:fs").then(() => "through", () => "undefined")'],
] as const;

const BOMBS = [
  ['a loop', 'for (;;);'],
  ['microtasks', 'const next = () => Promise.resolve().then(next); await next()'],
  ['a promise that never settles', 'await new Promise(() => {})'],
  ['indexOf on 2^53', 'return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)'],
  ['arrays', 'const all = []; for (;;) all.push(new Array(1e5).fill(1.1))'],
  ['a value that never comes', 'return { toJSON() { for (;;); } }'],
  ['an error that never comes', 'throw { get message() { for (;;); } }'],
] as const;

describe.each(['isolate', 'compartment'] as const)('a plugin in a %s', (isolation) => {
  let daemon: TestDaemon;
  let client: Client;

  beforeAll(async () => {
    daemon = await startDaemon();
    client = await daemon.connect();
    writeFileSync(join(daemon.workspace, 'notes.txt'), 'one\n');
    await addPlugin(daemon, written({ isolation, tools: [EVALUATE, SHORT], files: { 'main.js': MAIN } }));
    await dataOf(call('return 1') as never);
    await dataOf(client.call('file_read', { path: 'notes.txt' }));
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });
  const call = (code: string, tool = 'probe__run') =>
    client.call(tool, { code }) as PromiseLike<ToolResult<{ value?: unknown }>>;

  test.each(ESCAPES)('gets nothing of the machine by %s', async (_, code) => {
    const result = await call(code);
    const found = result.success ? JSON.stringify(result.data.value ?? 'undefined') : result.error.code;
    expect(found).not.toMatch(/through|object|function/);
  });

  test.each(BOMBS)(
    'a plugin that makes %s ends in its time, and others are answered meanwhile',
    BUSY,
    async (_, code) => {
      const startedAt = performance.now();
      const bomb = Promise.resolve(call(code, 'probe__short'));
      let isOver = false;
      void bomb.then(() => (isOver = true));
      let slowestMs = 0;
      do {
        const at = performance.now();
        await dataOf(client.call('file_read', { path: 'notes.txt' }, { cache: false }));
        slowestMs = Math.max(slowestMs, performance.now() - at);
      } while (!isOver);
      const result = await bomb;
      expect(result.success || result.error.code).toMatch(/^(TIMEOUT|CPU_LIMIT|MEMORY_LIMIT|HOST_CRASHED|CODE_ERROR)$/);
      expect(performance.now() - startedAt).toBeLessThan(2 * TIMEOUT_MS + 500);
      expect(slowestMs).toBeLessThan(1000);
      expect(await dataOf(call('return 2') as never)).toEqual({ value: 2 });
    },
  );

  test('calls no tool beyond its capabilities, whatever it sends', async () => {
    expect(
      await dataOf(
        call(
          'return [typeof tools.file_write, typeof tools.terminal_execute, typeof tools.code_run, typeof tools.probe__run]',
        ) as never,
      ),
    ).toEqual({
      value: ['undefined', 'undefined', 'undefined', 'undefined'],
    });
    // Calls a tool that it has under a name that it does not have.
    const forged = `tools.file_read.toString = () => 'file_write';
      try { await Reflect.apply(tools.file_read, { name: 'file_write' }, [{ path: 'made.txt', content: 'x' }]) } catch (error) { return error.code }`;
    const result = await call(forged);
    expect(result.success ? result.data.value : result.error.code).toMatch(/INPUT_INVALID|CODE_ERROR/);
  });

  test.each([
    ['null', 'throw null;', /threw Error: null/],
    ['a symbol', "throw Symbol('x');", /threw \w+: /],
    ['what throws when it is looked at', "throw { get name() { throw new Error('again') } };", /threw \w+: /],
  ])('a plugin whose module throws %s ends at once, as the error of its code', async (_, code, message) => {
    const files = { 'main.js': `${code} export const run = () => ({});` };
    await addPlugin(daemon, written({ name: 'thrower', isolation, tools: [{}], files }));
    const { error } = (await client.call('thrower__run', {})) as { error?: { code: string; message: string } };
    expect(error).toMatchObject({ code: 'CODE_ERROR', message: expect.stringMatching(message) });
  });

  test('leaves nothing for its next call, or for another plugin', async () => {
    await call(
      'globalThis.left = 1; Object.prototype.left = 1; Array.prototype.map = () => "taken"; JSON.stringify = () => "taken"; return 1',
    );
    const look = 'return [typeof globalThis.left, typeof ({}).left, [1].map(String).join(), JSON.stringify(1)]';
    expect(await dataOf(call(look) as never)).toEqual({ value: ['undefined', 'undefined', '1', '1'] });
    await addPlugin(daemon, written({ name: 'other', isolation, tools: [EVALUATE], files: { 'main.js': MAIN } }));
    expect(await dataOf(client.call('other__run', { code: look }) as never)).toEqual({
      value: ['undefined', 'undefined', '1', '1'],
    });
  });
});

test(
  'a plugin in a compartment that goes on after its end ends by its own time, and speaks for no other',
  BUSY,
  async () => {
    await using daemon = await startDaemon();
    await using client = await daemon.connect();
    const lasting = `const forever = () => Promise.resolve().then(forever);
export const run = () => { void forever(); return {} };
export const later = (_, { tools, console, setTimeout }) => {
  const go = () => { console.log('late'); tools.file_read({ path: 'notes.txt' }).then(go, go) };
  setTimeout(go, 0);
  go();
  return {};
};`;
    const tools = [{ limits: { timeoutMs: TIMEOUT_MS } }, { name: 'later', capabilities: ['fs.read'] }];
    await addPlugin(daemon, written({ isolation: 'compartment', tools, files: { 'main.js': lasting } }));
    const waiting = `export const run = (_, { setTimeout }) => new Promise((go) => setTimeout(() => go({ value: 1 }), 200));`;
    const other = { name: 'other', isolation: 'compartment', files: { 'main.js': waiting } } as const;
    await addPlugin(daemon, written({ ...other, tools: [{ capabilities: ['fs.read'] }] }));
    expect(await client.call('probe__run', {})).toMatchObject({ error: { code: 'TIMEOUT' } });
    expect(await dataOf(client.call('other__run', {}) as never)).toEqual({ value: 1 });
    await dataOf(client.call('probe__later', {}) as never);
    const callId = 'quiet';
    expect(await dataOf(client.call('other__run', {}, { callId }) as never)).toEqual({ value: 1 });
    await using operator = await daemon.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { tool: 'file_read' })) as {
      entries: { detail?: object }[];
    };
    expect(entries.filter((it) => JSON.stringify(it.detail)?.includes(callId))).toEqual([]);
  },
);

test('a plugin that hangs by the pattern of its own schema costs its call only', BUSY, async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const word = { type: 'string', pattern: '^(a+)+$', description: 'A word.' };
  const tool = { input: { type: 'object', properties: { word } }, limits: { timeoutMs: 400 } };
  await addPlugin(daemon, written({ tools: [tool], files: { 'main.js': 'export const run = () => ({})' } }));
  await dataOf(client.call('todo_read', {}) as never); // Its host is running.
  const startedAt = performance.now();
  const hanging = Promise.resolve(client.call('probe__run', { word: `${'a'.repeat(40)}b` }));
  expect(await client.call('todo_read', {})).toMatchObject({ success: true });
  expect(performance.now() - startedAt).toBeLessThan(1000);
  expect(await hanging).toMatchObject({ error: { code: 'TIMEOUT' } });
});

test('a call that names more than can be judged in a turn is refused, whatever the manifest lets it name', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const paths = { type: 'array', items: { type: 'string' }, description: 'Any.' };
  const tool = {
    input: { type: 'object', properties: { paths } },
    effects: [{ kind: 'read', target: '${input.paths}' }],
  };
  await addPlugin(daemon, written({ tools: [tool], files: { 'main.js': 'export const run = () => ({})' } }));
  const call = (given: string[]) => client.call('probe__run', { paths: given });
  const { declaredTargetsMax, declaredTargetChars } = limits;
  expect(await call(Array<string>(declaredTargetsMax).fill('a'))).toMatchObject({ success: true });
  expect(await call(Array<string>(declaredTargetsMax + 1).fill('a'))).toMatchObject({
    error: { code: 'INPUT_INVALID' },
  });
  expect(await call(['a'.repeat(declaredTargetChars + 1)])).toMatchObject({ error: { code: 'INPUT_INVALID' } });
});

test('a tool named like a property of objects takes nothing away', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const files = { 'main.js': 'export const constructor = () => ({ value: 1 }); export const run = constructor' };
  await addPlugin(daemon, written({ tools: [{ name: 'constructor' }], files }));
  expect(await dataOf(client.call('probe__constructor', {}) as never)).toEqual({ value: 1 });
  for (const name of ['__proto__', 'constructor', 'toString', 'probe__', 'probe____proto__'])
    expect(await client.call(name, {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
});

const REFUSED: readonly [string, object, RegExp][] = [
  ['a name that is no name', { name: '__proto__' }, /name: takes lower-case letters/],
  ['a name that is another plugin and its tool', { name: 'a__b' }, /name: takes lower-case letters/],
  ['a tool of such a name', { tools: [{ name: '__proto__' }] }, /tools\.0\.name/],
  ['a capability that its tier does not have', { tools: [{ capabilities: ['fs.write'] }] }, /can not have fs\.write/],
  ['a capability that nobody has', { tools: [{ capabilities: ['fs.all'] }] }, /tools\.0\.capabilities\.0/],
  [
    'an effect that its tier does not have',
    { tools: [{ effects: [{ kind: 'write', target: 'a' }] }] },
    /no write effects/,
  ],
  [
    'an effect on a parameter that it does not have',
    { tools: [{ effects: [{ kind: 'read', target: '${input.a}' }] }] },
    /no parameter a/,
  ],
  [
    'a schema from elsewhere',
    { tools: [{ input: { type: 'object', properties: { a: { $ref: 'https://example.org/x' } } } }] },
    /\$ref is unknown/,
  ],
  [
    'a parameter called __proto__',
    { tools: [{ input: JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}') as object }] },
    /__proto__/,
  ],
  [
    'a parameter that every object has',
    { tools: [{ input: { type: 'object', properties: { valueOf: { type: 'string', description: 'x' } } } }] },
    /is a name that every object/,
  ],
  ['a module outside of its folder', { tools: [{ module: '../main.js' }] }, /takes a \.js or \.mjs file/],
  ['limits that are more than any program has', { tools: [{ limits: { memoryMb: 100_000 } }] }, /memoryMb/],
  ['a key that it made up', { tools: [{ trusted: true }] }, /trusted is unknown/],
];

describe('a plugin folder', () => {
  const refusal = (folder: string): string => {
    try {
      readPlugin(folder, limits);
      return 'taken';
    } catch (error) {
      if (!(error instanceof PinError)) throw error;
      return error.message;
    }
  };
  const main = { 'main.js': 'export const run = 1' };

  test.each(REFUSED)('a plugin folder with %s is refused', (_, manifest, message) => {
    expect(refusal(written({ ...manifest, files: main }))).toMatch(message);
  });

  test.each([
    [
      'a bomb of aliases',
      `name: &a [x, x, x, x, x, x, x, x, x]\n${'bcdefghi'
        .split('')
        .map((it, at) => `${it}: &${it} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(', ')}]`)
        .join('\n')}\n`,
      /more than \d+ values|aliases/,
    ],
    ['more nesting than there may be', `name: ${'['.repeat(100)}${']'.repeat(100)}\n`, /nested more than/],
    ['a manifest over its size', `# ${'x'.repeat(70_000)}\n`, /bytes; at most/],
    ['a tag that makes other things', 'name: !!js/function x\n', /tag/],
  ])('a plugin folder with %s in its manifest is refused', (_, text, message) => {
    const startedAt = performance.now();
    expect(refusal(written({ files: { ...main, 'ringfence.plugin.yaml': text } }))).toMatch(message);
    expect(performance.now() - startedAt).toBeLessThan(1000);
  });

  test('a plugin folder with a link in it, which could lead to a secret, is refused', () => {
    const folder = written({ files: main });
    symlinkSync('/etc/passwd', join(folder, 'data.txt'));
    expect(refusal(folder)).toMatch(/symbolic link/);
    rmSync(join(folder, 'data.txt'));
    symlinkSync('/etc', join(folder, 'etc'));
    expect(refusal(folder)).toMatch(/symbolic link/);
  });

  test('a plugin folder with too many files, too many bytes or too deep folders is refused', () => {
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`f${at}.txt`, '']));
    expect(refusal(written({ files: { ...main, ...many } }))).toMatch(/at most 64 files/);
    expect(refusal(written({ files: { ...main, 'big.txt': 'x'.repeat(1_200_000) } }))).toMatch(/bytes/);
    expect(refusal(written({ files: { ...main, 'a/b/c/d/e/f.txt': '' } }))).toMatch(/folders deep/);
  });
});

describe('what was pinned', () => {
  const stateDir = temporaryDir('state');
  afterAll(() => rmSync(stateDir, { recursive: true }));
  const pinned = join(stateDir, 'plugins/probe.json');

  test('a pinned plugin keeps the code that was added when its folder changes; a changed pin is refused', () => {
    const folder = written({ files: { 'main.js': 'export const run = 1' } });
    const plugin = readPlugin(folder, limits);
    pinnedPlugins(stateDir, limits).add(plugin.manifest.name, plugin.files, 0);
    writeFileSync(join(folder, 'main.js'), 'export const run = 2');
    expect(readPin(pinnedPlugins(stateDir, limits), 'probe', limits).files['main.js']).toBe('export const run = 1');
    const text = readFileSync(pinned, 'utf8');
    for (const swapped of [
      text.replace('run = 1', 'run = 2'),
      text.replace('"main.js"', '"more.js":"","main.js"'),
      text.replace('read_only', 'write'),
    ]) {
      expect(swapped).not.toBe(text);
      writeFileSync(pinned, swapped);
      expect(() => readPin(pinnedPlugins(stateDir, limits), 'probe', limits)).toThrow(/was changed since it was added/);
    }
    writeFileSync(pinned, '{"version":1,');
    expect(() => readPin(pinnedPlugins(stateDir, limits), 'probe', limits)).toThrow(PinError);
    rmSync(pinned);
    symlinkSync(join(folder, 'ringfence.plugin.yaml'), pinned);
    expect(() => readPin(pinnedPlugins(stateDir, limits), 'probe', limits)).toThrow(/symbolic link/);
    rmSync(pinned);
  });

  test('a pin has the name of its file, and files with other names are ignored', () => {
    const plugin = readPlugin(written({ files: { 'main.js': '' } }), limits);
    pinnedPlugins(stateDir, limits).add(plugin.manifest.name, plugin.files, 0);
    writeFileSync(join(stateDir, 'plugins/other.json'), readFileSync(pinned), { mode: 0o600 });
    expect(() => readPin(pinnedPlugins(stateDir, limits), 'other', limits)).toThrow(/holds the plugin probe/);
    mkdirSync(join(stateDir, 'plugins/sub.json'));
    writeFileSync(join(stateDir, 'plugins/__proto__.json'), '{}');
    expect(pinnedPlugins(stateDir, limits).names()).toEqual(['other', 'probe', 'sub']);
    expect(() => readPin(pinnedPlugins(stateDir, limits), 'sub', limits)).toThrow(PinError);
    expect(manifestOf({})).toHaveProperty('name', 'probe');
  });
});
