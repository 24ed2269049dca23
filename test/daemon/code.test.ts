/** `code_run`: a program's value, console, input and bounds, and the calls that it makes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CallRecord } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const POLICY = `rules:
  - { id: asked, match: { path: asked.txt }, decision: ask, reason: A person looks at it. }
`;

let daemon: OpenDaemon;
let client: Client;
let operator: Client;

beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  client = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  writeFileSync(join(daemon.workspace, 'notes.txt'), 'one\ntwo\n');
  writeFileSync(join(daemon.workspace, 'asked.txt'), 'three\n');
  writeFileSync(join(daemon.workspace, '.env'), 'TOKEN=1\n');
  writeFileSync(join(daemon.workspace, 'large.txt'), `${'x'.repeat(99)}\n`.repeat(50_000));
  writeFileSync(join(daemon.workspace, 'medium.txt'), `${'x'.repeat(99)}\n`.repeat(10_000));
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const run = (code: string, more: object = {}, options: object = {}) =>
  client.call('code_run', { code, ...more }, options) as ReturnType<Client['call']>;
const given = async (code: string, more: object = {}) =>
  ((await dataOf(run(code, more) as never)) as { value: unknown }).value;
const codeOf = async (code: string, more: object = {}) => {
  const result = await run(code, more);
  return result.success ? 'none' : result.error.code;
};

const pendingNow = async () =>
  ((await operator.request('approvals.list', {})) as { approvals: { approvalId: string }[] }).approvals;

describe('a program', () => {
  test.each([
    ['return 1 + 1', 2],
    ['return await new Promise((go) => setTimeout(go, 20, "late"))', 'late'],
    ['return { a: [1, null, "x"], b: undefined }', { a: [1, null, 'x'] }],
    [
      'const id = setTimeout(() => console.log("no"), 10); clearTimeout(id); await new Promise((go) => setTimeout(go, 30)); return 1',
      1,
    ],
    ['interface A { n: number }\nconst a: A = { n: 3 };\nreturn a.n as number', 3],
    ['', undefined],
  ])('%j gives %j', async (code, value) => {
    expect(await given(code === '' ? ';' : code)).toEqual(value);
  });

  test('maps, sets, patterns, dates and numbers that JSON has not come back in a form that says what they are', async () => {
    expect(
      await given(`return { map: new Map([['a', new Set([1, NaN])]]), at: new Date(0), none: new Date(NaN),
        pattern: /a+/gi, ends: [Infinity, -Infinity, -0, null], mapped: await tools.data_validate({ data: '1',
        schema: { enum: new Set([1]) } }) }`),
    ).toEqual({
      map: [['a', [1, 'NaN']]],
      at: '1970-01-01T00:00:00.000Z',
      none: 'Invalid Date',
      pattern: '/a+/gi',
      ends: ['Infinity', '-Infinity', 0, null],
      mapped: expect.objectContaining({ valid: true }),
    });
  });

  test('a program encodes and decodes text as Node does, ill-formed text and bytes included', async () => {
    const texts = ['', 'aé€😀', '\ud800x', '\ufeffa'];
    const bytes = [
      [0xef, 0xbb, 0xbf, 0x61],
      [0xe2, 0x82],
      [0xf0, 0x9f, 0x41],
      [0xc0, 0x80],
      [0xed, 0xa0, 0x80, 0x62],
      [0xf4, 0x90],
    ];
    const code = `return [input.texts.map((it) => [...new TextEncoder().encode(it)]),
      input.bytes.map((it) => new TextDecoder().decode(new Uint8Array(it)))]`;
    expect(await given(code, { input: { texts, bytes } })).toEqual([
      texts.map((it) => [...new TextEncoder().encode(it)]),
      bytes.map((it) => new TextDecoder().decode(new Uint8Array(it))),
    ]);
    const more = `const decoder = new TextDecoder('UTF-8', { fatal: true });
      const parts = [[0xe2], [0x82, 0xac]].map((it) => decoder.decode(new Uint8Array(it), { stream: true }));
      const refused = [];
      for (const it of [() => decoder.decode(new Uint8Array([255])), () => new TextDecoder('utf-16le')])
        try { it() } catch (error) { refused.push(error.name) }
      return [parts, refused]`;
    expect(await given(more)).toEqual([
      ['', '€'],
      ['TypeError', 'RangeError'],
    ]);
  });

  test('a program reads and writes URLs as Node does', async () => {
    const urls = [
      ...['https://Us%20er@EXAMPLE.com:443/a/../b c?x=1&y=ä#f g', 'http://ex%41mple.com:8080', 'mailto:a@b?c'],
      ...['http://bücher.example/ü?ü', 'http://[::1]:80/', 'http://0x7f.1/', 'file:///c:/x/./y', 'http://a b', 'x', ''],
      ...[
        'http://a:99999',
        'http://\ud800.x/\ud800?\ud800',
        'blob:https://a.b/c',
        ' http://a/\t\n ',
        'http://a?&&=&a=%zz%F0%9F%98%80%ff',
      ],
    ];
    const work = (all: readonly string[]) => {
      const parts = 'href origin protocol username password host hostname port pathname search hash'.split(' ');
      const seen = all.map((it) => {
        if (!URL.canParse(it)) return 'none';
        const url = new URL(it);
        const now = () => parts.map((name) => (url as never)[name]);
        const before = [now(), [...url.searchParams], String(url.searchParams)];
        const params = url.searchParams;
        params.append("é'~ (", 'a+b&=\ud800');
        params.set('x', '2');
        params.sort();
        const set = { hash: '#h h', port: '81', host: 'other:82', pathname: '/p p', protocol: 'ws', username: 'ü' };
        Object.assign(url, set);
        const between = now();
        url.search = '?k=1&k=2&l';
        const read = [params.getAll('k'), params.get('z'), params.has('k', '2'), params.size, [...params.keys()]];
        params.delete('k', '1');
        params.delete('k');
        params.delete('l');
        return [before, between, read, now(), JSON.stringify({ url })];
      });
      const base = ['../c', '//d/e', '?q', '#f', 'http:g', '/h'].map((it) => new URL(it, 'http://a/b/b?x#y').href);
      const made = [
        [['a', 'b']],
        { c: 'd', e: 1 },
        new Map([['f', 'g']]),
        '?h=i',
        new URLSearchParams('j=k'),
        undefined,
      ];
      const params = made.map((it) => new URLSearchParams(it as never).toString());
      const thrown = [
        () => new URL('x'),
        () => new URLSearchParams([['a']] as never),
        () => (new URL('http://a').href = 'x'),
      ];
      const names = thrown.map((it) => {
        try {
          return it();
        } catch (error) {
          return [(error as Error).name, (error as { code?: string }).code ?? null];
        }
      });
      return [seen, base, params, names.slice(0, 1), names[2], URL.parse('x')];
    };
    expect(await given(`return (${String(work)})(input)`, { input: urls })).toEqual(
      JSON.parse(JSON.stringify(work(urls))),
    );
    expect(await given('return [new URL("http://a"), new URLSearchParams("a=b")]')).toEqual(['http://a/', 'a=b']);
  });

  test('a program clones values, also ones that contain themselves, and is refused what has no copy', async () => {
    const code = `const value = { at: new Date(0), map: new Map([['a', new Set([1])]]), bytes: new Uint16Array([1, 2]),
        error: new TypeError('t'), pattern: /a/g, list: [1, , 3] };
      value.self = value;
      const copy = structuredClone(value);
      let refused;
      try { structuredClone({ f() {} }) } catch (error) { refused = error.name }
      return [copy !== value && copy.self === copy, copy.at, copy.map, [...copy.bytes], copy.bytes !== value.bytes,
        copy.error instanceof TypeError && copy.error.message, copy.pattern, 1 in copy.list, copy.list.length, refused]`;
    const expected = [
      true,
      '1970-01-01T00:00:00.000Z',
      [['a', [1]]],
      [1, 2],
      true,
      't',
      '/a/g',
      false,
      3,
      'DataCloneError',
    ];
    expect(await given(code)).toEqual(expected);
  });

  test('a signal aborts once, by its controller, a time or another signal', async () => {
    const code = `const controller = new AbortController(), seen = [];
      const any = AbortSignal.any([controller.signal]);
      any.addEventListener('abort', ({ type, target }) => seen.push(type, target === any, target.reason));
      controller.abort('enough'); controller.abort('more');
      const late = AbortSignal.timeout(5);
      await new Promise((go) => { late.onabort = go });
      try { late.throwIfAborted() } catch (error) { seen.push(error.name) }
      return [seen, AbortSignal.abort().reason.name]`;
    expect(await given(code)).toEqual([['abort', true, 'enough', 'TimeoutError'], 'AbortError']);
  });

  test('a program has its input as it was sent, and finds nothing of another one', async () => {
    const input = { a: ['é', 1.5, null, true] };
    expect(await given('globalThis.left = 1; return input', { input })).toEqual(input);
    expect(await given('return [typeof left, typeof input]')).toEqual(['undefined', 'undefined']);
  });

  test('logs in order, by level, up to the bounds', async () => {
    const data = (await dataOf(
      run('console.log("a", { b: 1 }); console.warn([2n, 1]); console.error(new TypeError("t"))') as never,
    )) as { logs: unknown };
    expect(data.logs).toEqual([
      { level: 'log', text: 'a {"b":1}' },
      { level: 'warn', text: '[what can not be shown]' },
      { level: 'error', text: 'TypeError: t' },
    ]);
    const flood = (await dataOf(run('for (let i = 0; i < 1e5; i++) console.log("x".repeat(1000))') as never)) as {
      logs: { text: string }[];
    };
    expect(flood.logs.length).toBeLessThanOrEqual(200);
    expect(flood.logs.reduce((sum, it) => sum + it.text.length, 0)).toBeLessThanOrEqual(32 * 1024);
  });

  test.each([
    ['const a = 1;\n  throw new TypeError("no")', { name: 'TypeError', message: 'no', line: 2, column: 9 }],
    ['const f = () => {\n  null.x;\n};\nf()', { name: 'TypeError', line: 2, column: 8 }],
    ['throw { x: 5 }', { name: 'Error', message: '{"x":5}' }],
    [
      'enum A { x }\nconst a: number = 1;',
      { name: 'SyntaxError', message: expect.stringMatching(/enum is not supported/) },
    ],
    ['const a = 1;\nconst b = ;', { name: 'SyntaxError', line: 2, column: 11 }],
    ['throw "text"', { name: 'Error', message: 'text' }],
    ['await tools.nothing({})', { name: 'TypeError', line: 1 }],
  ])('%j tells where it failed', async (code, details) => {
    expect(await run(code)).toMatchObject({ success: false, error: { code: 'CODE_ERROR', details } });
  });

  test.each([
    ['throw 1', 'CODE_ERROR'],
    ['for (;;);', 'TIMEOUT'],
    ['Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)', 'TIMEOUT'],
    ['await tools.file_read({ path: "asked.txt" })', 'TIMEOUT'],
  ])('a program that ends by %j still returns its logs', async (end, code) => {
    const logs = [{ level: 'log', text: 'so far' }];
    // Enough time for a busy machine to start.
    const timeoutMs = 1500;
    const asked = end.includes('asked') ? [{}, { timeoutMs }] : [{ timeoutMs }];
    const ended = run(`console.log("so far"); ${end}`, ...asked);
    expect(await ended).toMatchObject({ error: { code, details: { logs } } });
  });

  test('a program whose host is killed reports what it logged', async () => {
    const running = run('console.warn("so far"); await tools.file_read({ path: "asked.txt" })');
    // Its log lines came before its call.
    await until(async () => (await pendingNow()).length === 1);
    const { hosts } = (await operator.request('status', {})) as {
      hosts: { tier: string; pid: number; busy: number }[];
    };
    process.kill(hosts.find((it) => it.tier === 'isolate' && it.busy > 0)?.pid as number, 'SIGKILL');
    const logs = [{ level: 'warn', text: 'so far' }];
    expect(await running).toMatchObject({ error: { code: 'HOST_CRASHED', details: { logs } } });
    await until(async () => (await pendingNow()).length === 0);
  });

  test.each([
    ['while (true);', { timeoutMs: 300 }, 'TIMEOUT'],
    ['await new Promise(() => {})', { timeoutMs: 300 }, 'TIMEOUT'],
    ['const all = []; for (;;) all.push(new Array(1e4).fill(1.5))', { memoryMb: 16 }, 'MEMORY_LIMIT'],
    [
      'const all = []; for (;;) all.push(await Promise.all("12345678".split("").map(() => tools.file_read({ path: "medium.txt" }))))',
      { memoryMb: 16 },
      'MEMORY_LIMIT',
    ],
    ['return "x".repeat(2e6)', {}, 'OUTPUT_LIMIT'],
    ['return 1', { tools: ['no_such'] }, 'TOOL_NOT_FOUND'],
    ['return 1', { tools: ['code_run'] }, 'TOOL_NOT_FOUND'],
  ])('%j with %j ends as %3$s', async (code, more, expected) => {
    expect(await codeOf(code, more)).toBe(expected);
  });

  test('ends at its CPU limit, which the policy narrows', async () => {
    await using strict = await openDaemon({ policy: 'tiers:\n  execute: { cpuMs: 200 }\n' });
    await using other = await strict.connect();
    const result = await other.call('code_run', { code: 'for (;;);' });
    expect(result).toMatchObject({ success: false, error: { code: 'CPU_LIMIT', details: { limit: 200 } } });
  });

  test('ends with its cancellation', async () => {
    const callId = 'to-cancel';
    const running = run('for (;;);', {}, { callId });
    await until(async () => (await client.record(callId)).state.status === 'in-progress');
    await client.request('calls.cancel', { callId });
    expect(await running).toMatchObject({ error: { code: 'CANCELLED' } });
  });
});

describe('calls of a program', () => {
  test('give the data of their tools, many at once', async () => {
    const code = `const all = await Promise.all(Array.from({ length: 100 }, () => tools.file_read({ path: 'notes.txt' })));
      return all.reduce((sum, it) => sum + it.content.length, 0)`;
    expect(await given(code)).toBe(800);
  });

  test('calls may fail before the program waits for them, and a failure that it never waits for is logged', async () => {
    const code = `const [failing, other] = ['nope.txt', 'notes.txt'].map((path) => tools.file_read({ path }));
      await new Promise((go) => setTimeout(go, 50));
      try { await failing } catch (error) { return [error.code, (await other).lines] }`;
    expect(await given(code)).toEqual(['NOT_FOUND', 2]);
    const forgotten = 'tools.file_read({ path: "nope.txt" }); await new Promise((go) => setTimeout(go, 50)); return 1';
    expect(await dataOf(run(forgotten) as never)).toEqual({
      value: 1,
      logs: [{ level: 'error', text: expect.stringMatching(/nothing waited for it: `nope.txt` does not exist/) }],
    });
  });

  test('calls are recorded under the program that made them', async () => {
    const callId = 'parent-1';
    await run('await tools.file_write({ path: "made.txt", content: "x" })', {}, { callId });
    const { entries } = (await operator.request('audit.query', { tool: 'file_write' })) as {
      entries: { kind: string; detail?: object }[];
    };
    expect(entries.map((it) => [it.kind, it.detail])).toEqual(
      expect.arrayContaining([
        ['intent', { parentCallId: callId }],
        ['outcome', { parentCallId: callId }],
      ]),
    );
  });

  test.each([
    ['tools.file_read({ path: ".env" })', 'SENSITIVE_FILE'],
    ['tools.file_read({ path: "../../etc/passwd" })', 'ACCESS_DENIED'],
    ['tools.file_read({ no: 1 })', 'INPUT_INVALID'],
    ['tools.file_read("text")', 'INPUT_INVALID'],
    ['tools.file_read({ path: "x".repeat(2e6) })', 'INPUT_INVALID'],
    ['tools.file_read({ path: "large.txt" })', 'OUTPUT_LIMIT'],
  ])('%s throws an error with the code %s', async (call, code) => {
    const program = `try { await ${call}; return "ok" } catch (error) { return [error.name, error.code, error instanceof Error] }`;
    expect(await given(program)).toEqual(['ToolError', code, true]);
  });

  test('a program may only call the tools that were named, and never programs', async () => {
    const code = 'return [Object.keys(tools), typeof tools.code_run]';
    expect(await given(code, { tools: ['file_read'] })).toEqual([['file_read'], 'undefined']);
    expect(await given('return typeof tools.code_run')).toBe('undefined');
  });

  test('calls beyond the permitted number are refused', async () => {
    const code = `let done = 0, refused = 0;
      for (let i = 0; i < 1010; i++) try { await tools.todo_read({}); done++ } catch (error) { if (error.code === 'RATE_LIMITED') refused++ }
      return [done, refused]`;
    expect(await given(code)).toEqual([1000, 10]);
  });

  test('calls of a program that wait for a person stop the clock of the program', async () => {
    const running = run('return (await tools.file_read({ path: "asked.txt" })).content', { timeoutMs: 1500 });
    const startedAt = performance.now();
    await until(async () => (await pendingNow()).length === 1);
    await until(() => performance.now() - startedAt > 2000);
    const [pending] = await pendingNow();
    await operator.request('approvals.resolve', { approvalId: pending?.approvalId, decision: 'approve' });
    expect(await running).toMatchObject({ success: true, data: { value: 'three\n' } });
  });

  test('end with the program', async () => {
    const callId = 'parent-2';
    const running = run('await tools.terminal_execute({ command: "sleep 60" })', {}, { callId });
    const child = async () =>
      ((await client.request('calls.list', { tool: 'terminal_execute' })) as { calls: CallRecord[] }).calls.at(-1);
    await until(async () => (await child())?.state.status === 'in-progress');
    await client.request('calls.cancel', { callId });
    expect(await running).toMatchObject({ error: { code: 'CANCELLED' } });
    await until(async () => (await child())?.state.status === 'cancelled');
  });
});

test('a client that asks for all tools gets the tools that a program may call, with their types', async () => {
  const { tools } = (await client.request('tools.list', { format: 'anthropic', tools: 'all' })) as {
    tools: { name: string; description: string }[];
  };
  const { description } = tools.find(({ name }) => name === 'code_run') as { description: string };
  expect(description).toContain('\nfile_read({path: string,');
  expect(description).not.toContain('\ncode_run(');
});
