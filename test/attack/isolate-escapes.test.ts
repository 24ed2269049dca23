/** Programs that try to escape: none reaches anything but its tools, and one that breaks its wrapper breaks only itself. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon } from '../support/daemon.ts';

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
});

const run = (code: string, more: object = {}) =>
  client.call('code_run', { code, memoryMb: 32, ...more }) as PromiseLike<ToolResult>;
const given = async (code: string) => ((await dataOf(run(code) as never)) as { value: unknown }).value;

/** Each program returns what it found, which must not include anything of the host. */
const ESCAPES = [
  ['the constructor of a function', 'return typeof (() => {}).constructor("return typeof process")()', 'string'],
  [
    'process by constructors of what is there',
    `
    const found = [];
    for (const it of [console.log, setTimeout, TextDecoder, structuredClone, AbortSignal.timeout(1), tools, tools.file_read, input, tools.file_read({ path: "notes.txt" })])
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
  [
    'modules',
    `const out = [];
    for (const it of ["node:fs", "isolated-vm", "./isolate.js", "data:text/javascript,1"])
      for (const go of [(it) => import(it), new Function("it", "return import(it)"), (it) => (0, eval)("import(" + JSON.stringify(it) + ")")])
        try { await go(it); out.push(it) } catch {}
    return out`,
    [],
  ],
  [
    'by the constructors of functions of every kind',
    `const kinds = [function () {}, async () => {}, function* () {}, async function* () {}, class {}.constructor];
    const found = [];
    for (const it of kinds) try { found.push(String(await (await it.constructor("return typeof process")().next?.())?.value ?? await it.constructor("return typeof process")())) } catch (e) { found.push("undefined") }
    return found.every((it) => it === "undefined")`,
    true,
  ],
  [
    'by what a thenable is given',
    `const given = await new Promise((go) => { const it = { then(...all) { go(all) } }; Promise.resolve(it) });
    return given.map((it) => it.constructor.constructor("return typeof process + typeof require")())`,
    ['undefinedundefined', 'undefinedundefined'],
  ],
  [
    'by the species of a promise',
    `const seen = [];
    class Seen extends Promise { constructor(go) { super((...all) => { seen.push(...all); return go(...all) }) } }
    Object.defineProperty(Promise, Symbol.species, { get: () => Seen });
    Promise.prototype.constructor = Seen;
    await tools.file_read({ path: "notes.txt" }).then((it) => it);
    await new Promise((go) => setTimeout(go, 5));
    return seen.every((it) => it.constructor.constructor("return typeof process")() === "undefined")`,
    true,
  ],
  [
    'by a proxy around what it was given',
    `const seen = [];
    const all = { get: (it, key) => { const value = Reflect.get(it, key); seen.push(value); return value }, apply: (it, self, given) => { seen.push(self, ...given); return Reflect.apply(it, self, given) } };
    new Proxy(console.log, all)("x"); new Proxy(setTimeout, all)(() => {}, 0); await new Proxy(tools.todo_read, all)({});
    return seen.filter((it) => typeof it === "function").every((it) => it.constructor("return typeof process")() === "undefined")`,
    true,
  ],
  [
    'by methods that the wrapper calls',
    `const seen = [];
    for (const [type, name] of [[Function, "call"], [Function, "apply"], [Function, "bind"], [Promise, "then"], [String, "slice"], [Array, "push"]]) {
      const own = type.prototype[name];
      type.prototype[name] = function (...all) { seen[seen.length] = this; return Reflect.apply(own, this, all) };
    }
    console.log("x", {}); await tools.file_read({ path: "notes.txt" }); await new Promise((go) => setTimeout(go, 5));
    return seen.some((it) => typeof it === "function" && String(it).includes(["s", "end"].join("")))`,
    false,
  ],
  [
    'by symbols and the prototypes of what it was given',
    `const of = (it) => it === null || it === undefined ? [] : [it, ...of(Object.getPrototypeOf(it))];
    const all = [tools, console, setTimeout, input, tools.file_read].flatMap(of);
    return all.flatMap((it) => Object.getOwnPropertySymbols(it)).filter((it) => !Object.values(Object.getOwnPropertyDescriptors(Symbol)).some(({ value }) => value === it)).length`,
    0,
  ],
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

describe('a program that tries to escape', () => {
  test.each(ESCAPES)('a program reaches nothing of its host: %s', async (_, code, expected) => {
    expect(await given(code)).toEqual(expected);
  });
});

test('a program finds what the language has and seven globals of the web, and nothing else', async () => {
  const names = (await given('return Reflect.ownKeys(globalThis).map(String)')) as string[];
  const ours = names.filter((it) => !ECMASCRIPT.test(it));
  const web = ['AbortController', 'AbortSignal', 'TextDecoder', 'TextEncoder', 'URL', 'URLSearchParams'];
  expect(ours.toSorted()).toEqual([...web, 'structuredClone']);
});

/** Known globals of ECMAScript and Intl in the engine; a new one must be reviewed before it is added. */
const ECMASCRIPT =
  /^(?:Object|Function|Array|Number|parseFloat|parseInt|Infinity|NaN|undefined|Boolean|String|Symbol|Date|Promise|RegExp|\w*Error|JSON|Math|Intl|ArrayBuffer|\w+(?:8|16|32|64)(?:Clamped)?Array|DataView|Map|BigInt|Set|Iterator|WeakMap|WeakSet|Proxy|Reflect|DisposableStack|AsyncDisposableStack|Temporal|decodeURI|decodeURIComponent|encodeURI|encodeURIComponent|escape|unescape|eval|isFinite|isNaN|console|globalThis|Symbol\(Symbol\.toStringTag\))$/;

test('prototypes that a program pollutes are its own, also by names in what it gives', async () => {
  const polluting = '{ "__proto__": { "admin": true }, "constructor": { "prototype": { "admin": true } } }';
  await run(`Object.prototype.admin = true; Array.prototype.admin = true; return JSON.parse('${polluting}')`);
  await run(`return tools.todo_read(JSON.parse('${polluting}'))`);
  await run(`return tools.file_read({ path: 'notes.txt', __proto__: { admin: true } })`);
  expect(({} as { admin?: unknown }).admin).toBeUndefined();
  expect(await given('return [typeof {}.admin, typeof [].admin]')).toEqual(['undefined', 'undefined']);
  const read = (await client.call('file_read', { path: 'notes.txt' }, { cache: false })) as ToolResult;
  expect(read.success).toBe(true);
});

test('a URL of a program comes from texts only, however long they are and whatever the program changed', async () => {
  const code = `const caught = [];
    const of = (make) => { try { return String(make()).length } catch (error) { caught.push(error.constructor === TypeError); return 0 } };
    Object.prototype.toString = () => 'x';
    JSON.parse = () => { throw 1 };
    const lengths = [of(() => new URL('http://a/' + 'x'.repeat(70_000))), of(() => new URL({ toString: () => 'http://a/b' })),
      of(() => new URL(Symbol())), of(() => new URL('b', { toString() { throw new TypeError('own') } }))];
    const url = new URL('http://a/');
    url.__proto__.origin = 'http://b';
    return [lengths, caught, url.origin, URL.constructor === Function]`;
  expect(await given(code)).toEqual([[0, 10, 0, 0], [true, true, true], 'http://a', true]);
});

test('a program that parses URLs without an end is ended at its limit, and the next one runs', async () => {
  const endless = (await run('for (;;) new URL("http://a/b?c")', { timeoutMs: 1_000 })) as ToolResult;
  expect(endless.success).toBe(false);
  expect(await given('return new URL("b", "http://a").href')).toBe('http://a/b');
});

describe('a broken wrapper', () => {
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
  ])('a program that breaks its own wrapper breaks only itself: %s', async (_, code) => {
    const result = await run(code, { timeoutMs: 1000 });
    if (result.success) expect(Object.keys(result.data as object).sort()).toEqual(expect.arrayContaining(['logs']));
    else expect(['CODE_ERROR', 'TIMEOUT']).toContain(result.error.code);
    expect(await given('return [1, { a: 2 }]')).toEqual([1, { a: 2 }]);
  });

  test.each([
    ['a function', 'return () => 1', undefined],
    ['a symbol', 'return Symbol("x")', undefined],
    ['a getter', 'return { get a() { return 1 } }', { a: 1 }],
    ['a map', 'return new Map([[1, 2]])', [[1, 2]]],
  ])('%s comes out as data', async (_, code, expected) => {
    expect(await given(code)).toEqual(expected);
  });

  test.each([
    ['a depth that no message holds', 'let a = []; for (let i = 0; i < 1000; i++) a = [a]; return a', 'OUTPUT_LIMIT'],
    ['a depth that is read in vain', 'let a = []; for (let i = 0; i < 4e5; i++) a = [a]; return a', 'CODE_ERROR'],
    ['more than its bound', 'return { toJSON: () => "x".repeat(2 ** 21) }', 'OUTPUT_LIMIT'],
    ['more than its memory', 'return Array(2 ** 9).fill("x".repeat(2 ** 22))', 'MEMORY_LIMIT'],
  ])('%s is no value', async (_, code, expected) => {
    expect(await run(code, { memoryMb: 64 })).toMatchObject({ success: false, error: { code: expected } });
  });

  test('names that no message holds beside each other are one', async () => {
    expect(await given('return { "\\ud800": 1, "\\udfff": 2 }')).toEqual({ '\ufffd': 2 });
    const code =
      'try { await tools.file_read({ path: "x", "\\ud800": 1, "\\udfff": 2 }) } catch (it) { return it.code }';
    expect(await given(code)).toBe('INPUT_INVALID');
  });

  test('an input of a call that is too deep to be written is an error of the program', async () => {
    const code = `let deep = []; for (let i = 0; i < 4e5; i++) deep = [deep];
      try { await tools.file_read({ path: deep }) } catch (error) { return error.name }`;
    expect(await given(code)).toBe('RangeError');
  });

  test.each([
    ['throw { get name() { throw 1 }, get message() { throw 2 } }'],
    ['throw new Proxy(new Error("x"), { get() { throw 1 } })'],
    ['throw Object.assign(new Error("x".repeat(2 ** 22)), { name: "y".repeat(2 ** 22), code: "z".repeat(2 ** 22) })'],
    ['throw { name: Symbol(), message: { toString: () => ({}) }, stack: { toString() { throw 1 } } }'],
    ['throw { message: "a\\n\\"b", stack: "\\n<anonymous>:9999999:1)" }'],
    ['using it = { [Symbol.dispose]() { throw new Error("b") } }; throw new Error("a")'],
    ['throw null'],
    ['return Promise.reject(undefined)'],
  ])('an error that lies of itself is one: %s', async (code) => {
    const result = await run(code);
    expect(result).toMatchObject({ success: false, error: { code: 'CODE_ERROR' } });
    expect(JSON.stringify(result).length).toBeLessThan(5000);
  });

  test('arguments of a log that lie, throw or can not be shown are shown as far as they can be', async () => {
    const hostile = `console.log(Object.create(null), Symbol("x"), 2n, null, undefined, () => 1);
      console.log(new Proxy({}, { ownKeys() { throw 1 }, get() { throw 1 }, getPrototypeOf() { throw 1 } }));
      console.log({ get a() { throw 1 } }, { toJSON() { throw 1 } }, { [Symbol.toPrimitive]() { throw 1 } });
      console.log("\\ud800", ...Array(1e5).fill("x"));
      console.log.call(null, "y"); console.warn("z".repeat(2 ** 24)); return 1`;
    const { logs } = (await dataOf(run(hostile) as never)) as { logs: { text: string }[] };
    expect(logs.length).toBeGreaterThanOrEqual(4);
    expect(logs[1]?.text).toBe('[what can not be shown]');
    expect(logs.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(32 * 1024);
    expect(logs.every(({ text }) => text.isWellFormed())).toBe(true);
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
