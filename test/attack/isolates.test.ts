/** Programs that want out, or to hold up what is beside them: each ends in time, and nothing else notices. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/call.ts';
import type { Client } from '../../src/client.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'notes.txt'), 'one\n');
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await until(() => processesWith(join('workers', 'isolate')).every((it) => it !== daemon.pid));
});

const run = (code: string, more: object = {}) =>
  client.call('code_run', { code, memoryMb: 32, ...more }) as PromiseLike<ToolResult>;
const given = async (code: string) => ((await dataOf(run(code) as never)) as { value: unknown }).value;

const TIMEOUT_MS = 400;
/** As test/support/daemon.ts leaves a busy machine some room. */
const WITHIN_MS = 2 * TIMEOUT_MS + 500;

/** What isolated-vm alone does not stop, or not in time (sandbox.md, fact 2). None takes more memory than the host may. */
const BOMBS = [
  ['an error whose message never comes', 'throw { get message() { for (;;); } }'],
  ['an error whose stack never comes', 'throw { get stack() { for (;;); } }'],
  ['indexOf on 2^53', 'return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)'],
  ['join on 2^32', 'return Array.prototype.join.call({ length: 2 ** 32 - 1 }, "")'],
  ['Array.from 2^31', 'return Array.from({ length: 2 ** 31 })'],
  ['bigint products', 'let b = 2n ** 1000000n; for (;;) b *= b'],
  ['bigint to string', 'return (1n << 30000000n).toString().length'],
  ['fill of 2^28', 'const a = []; a.length = 2 ** 25; a.fill(0); for (;;) a.fill(1)'],
  ['a regular expression', 'return /^(a+)+$/.test("a".repeat(40) + "b")'],
  ['microtasks', 'const next = () => Promise.resolve().then(next); await next()'],
  ['a promise that never settles', 'await new Promise(() => {})'],
  ['a thenable that never settles', 'return { then() {} }'],
  ['toJSON without end', 'return { toJSON() { for (;;); } }'],
  ['a proxy without end', 'return new Proxy({}, { ownKeys() { for (;;); } })'],
  ['an async generator', 'for await (const it of (async function* () { for (;;) yield 1; })());'],
  ['prepareStackTrace', 'Error.prepareStackTrace = () => { for (;;); }; throw new Error("x")'],
  ['resizable buffers', 'const all = []; for (;;) all.push(new Uint8Array(new ArrayBuffer(2 ** 22)).fill(1))'],
  ['arrays', 'const all = []; for (;;) all.push(new Array(1e5).fill(1.1))'],
  ['what no string can hold', `'a'.padEnd(2 ** 28, 'b').split('')`],
  ['timers without end', 'for (;;) { const id = setTimeout(() => {}, 1e6); clearTimeout(id) }'],
  ['a flood of logs', 'for (;;) console.log("x")'],
  ['a flood of calls that are not there', 'for (;;) { tools.file_read({ path: "x" }).catch(() => {}) }'],
] as const;

describe.each(BOMBS)('%s', (_, code) => {
  test('ends within twice its time and 500 ms, and others are answered within a second meanwhile', async () => {
    await dataOf(run('return 1') as never); // A host is there.
    const startedAt = performance.now();
    const bomb = run(code, { timeoutMs: TIMEOUT_MS });
    let isOver = false;
    const ended = Promise.resolve(bomb).then((result) => {
      isOver = true;
      return { result, ms: performance.now() - startedAt };
    });
    let slowestMs = 0;
    while (!isOver) {
      const at = performance.now();
      await dataOf(client.call('file_read', { path: 'notes.txt' }, { cache: false }));
      slowestMs = Math.max(slowestMs, performance.now() - at);
    }
    const { result, ms } = await ended;
    if (!result.success)
      expect(['TIMEOUT', 'CPU_LIMIT', 'MEMORY_LIMIT', 'HOST_CRASHED', 'CODE_ERROR', 'OUTPUT_LIMIT']).toContain(
        result.error.code,
      );
    expect(ms).toBeLessThan(WITHIN_MS);
    expect(slowestMs).toBeLessThan(1000);
    expect(daemon.process.exitCode).toBeNull();
    expect(await given('return 1')).toBe(1);
  });
});

/** Each gives what it found; nothing of the host may be among it. */
const ESCAPES = [
  ['the constructor of a function', 'return typeof (() => {}).constructor("return typeof process")()', 'string'],
  [
    'process by constructors of what is there',
    `
    const found = [];
    for (const it of [console.log, setTimeout, tools, tools.file_read, input, tools.file_read({ path: "notes.txt" })])
      try { found.push(it.constructor.constructor("return typeof process + typeof require + typeof globalThis.process")()) } catch (e) { found.push(e.name) }
    return found.every((it) => it === "undefinedundefinedundefined" || it === "TypeError")`,
    true,
  ],
  [
    'by the error of a tool',
    `
    try { await tools.file_read({ path: ".env" }) } catch (error) { return error.constructor.constructor("return typeof process")() }`,
    'undefined',
  ],
  [
    'by the data of a tool',
    'return (await tools.file_read({ path: "notes.txt" })).constructor.constructor("return typeof process")()',
    'undefined',
  ],
  [
    'functions of the stack',
    `const seen = [];
    Error.prepareStackTrace = (_, sites) => { for (const it of sites) seen.push(it.getFunction(), it.getThis()); return "" };
    new Error().stack;
    setTimeout(() => new Error().stack, 0);
    await new Promise((go) => setTimeout(go, 20));
    return seen.filter((it) => it !== undefined && it !== globalThis).map(String).some((it) => it.includes(["s", "end"].join("")))`,
    false,
  ],
  ['import()', 'try { await import("node:fs"); return "in" } catch { return "out" }', 'out'],
  [
    'what was removed',
    'return [typeof WebAssembly, typeof SharedArrayBuffer, typeof Atomics, typeof FinalizationRegistry, typeof WeakRef].join()',
    'undefined,undefined,undefined,undefined,undefined',
  ],
  [
    'the classes of isolated-vm',
    'return [typeof ivm, typeof Isolate, typeof Reference, typeof Callback, typeof require, typeof module].join()',
    'undefined,undefined,undefined,undefined,undefined,undefined',
  ],
  [
    'by the caller of a function',
    `function f() { return f.caller }
    const callers = [];
    for (let it = f(); it; ) { callers.push(String(it)); try { it = it.caller } catch { it = null } }
    return callers.some((it) => it.includes(["s", "end"].join("")))`,
    false,
  ],
] as const;

describe('reaches nothing of its host', () => {
  test.each(ESCAPES)('%s', async (_, code, expected) => {
    expect(await given(code)).toBe(expected);
  });
});

describe('a broken wrapper breaks its own program only', () => {
  test.each([
    ['Object.prototype.toJSON', 'Object.prototype.toJSON = () => ({ ok: true, value: () => 1 }); return {}'],
    ['JSON', 'JSON.stringify = () => "v{"; JSON.parse = () => 1; return 5'],
    ['then of every promise', 'Promise.prototype.then = function (go) { go({ toString: () => "v1" }) }; return 1'],
    ['String', 'String.prototype.slice = () => { throw 1 }; throw new Error("x")'],
    ['iterators', 'Array.prototype[Symbol.iterator] = function* () { yield "x" }; console.log(1); return [1]'],
    [
      'setters on what is asked for',
      `
      for (const name of ["1", "2", "name", "message"]) Object.defineProperty(Object.prototype, name, { set() { throw 1 }, configurable: true });
      return (await tools.file_read({ path: "notes.txt" })).content`,
    ],
  ])('%s', async (_, code) => {
    const result = await run(code, { timeoutMs: 1000 });
    if (result.success) expect(Object.keys(result.data as object).sort()).toEqual(expect.arrayContaining(['logs']));
    else expect(['CODE_ERROR', 'TIMEOUT']).toContain(result.error.code);
    expect(await given('return [1, { a: 2 }]')).toEqual([1, { a: 2 }]);
  });

  test.each([
    ['a function', 'return () => 1', undefined],
    ['a symbol', 'return Symbol("x")', undefined],
    ['a getter', 'return { get a() { return 1 } }', { a: 1 }],
    ['a map', 'return new Map([[1, 2]])', {}],
  ])('%s comes out as JSON has it', async (_, code, expected) => {
    expect(await given(code)).toEqual(expected);
  });

  test.each(['const a = {}; a.a = a; return a', 'return 1n'])('%s is an error', async (code) => {
    expect(await run(code)).toMatchObject({
      success: false,
      error: { code: 'CODE_ERROR', details: { name: 'TypeError' } },
    });
  });

  test.each(['}); return 1; (async () => {', '}\nreturn 1\n{', '*/ return 1 /*', "`${'"])(
    'source that ends the function it stands in is a syntax error: %s',
    async (code) => {
      expect(await run(code)).toMatchObject({ error: { code: 'CODE_ERROR', details: { name: 'SyntaxError' } } });
    },
  );
});

test('two sessions never share a process, and one session keeps its own', async () => {
  await using other = await daemon.connect();
  const pids = async (of: Client) => ((await of.call('code_run', { code: 'return 1' })) as ToolResult).metadata.hostPid;
  const [first, second] = [await pids(client), await pids(other)];
  expect(first).not.toBe(second);
  expect([await pids(client), await pids(other)]).toEqual([first, second]);
});

test('the hosts of a session end with it', async () => {
  const other = await daemon.connect();
  const pid = ((await other.call('code_run', { code: 'return 1' })) as ToolResult).metadata.hostPid as number;
  expect(existsSync(`/proc/${pid}`)).toBe(true);
  await other[Symbol.asyncDispose]();
  await until(() => !existsSync(`/proc/${pid}`));
});

test('a host sees no workspace and has no way out of its namespace', async () => {
  const { hostPid } = (await run('return 1')).metadata;
  const mounts = readFileSync(`/proc/${hostPid}/mountinfo`, 'utf8');
  expect(mounts).not.toContain(daemon.workspace);
  expect(
    readFileSync(`/proc/${hostPid}/net/dev`, 'utf8')
      .trim()
      .split('\n')
      .slice(2)
      .map((it) => it.trim().split(':')[0]),
  ).toEqual(['lo']);
  expect(readFileSync(`/proc/${hostPid}/status`, 'utf8')).toMatch(/^Seccomp:\s*2$/m);
});
