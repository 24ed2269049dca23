/** Sources built to hang, overload or deceive their readers, through a real daemon and in a thread of its own. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, isBelow, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { toolRunner } from '../support/search.ts';

const nested = (open: string, close: string, depth: number) => open.repeat(depth) + close.repeat(depth);

interface Answer {
  symbols: { name: string; file: string }[];
  totalResults: number;
  precision: string;
  skipped?: string[];
  warning?: string;
}

describe('in a thread', () => {
  let workspace: string;
  let tools: ReturnType<typeof toolRunner>;
  beforeEach(() => {
    workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-symbols-')));
    tools = toolRunner({ workspace });
    put('good.ts', 'export const target = 1;\n');
    put('good.py', 'target = 1\n');
  });
  afterEach(() => {
    tools.servers[Symbol.dispose]();
    rmSync(workspace, { recursive: true, force: true });
  });
  const put = (name: string, text: string) => writeFileSync(join(workspace, name), text);
  const find = (query = 'target', signal?: AbortSignal) =>
    tools.run<Answer>('workspace_search_symbol', { query }, signal);
  const filesOf = ({ symbols }: Answer) => symbols.map((it) => it.file);

  test('20 000 nested brackets hide nothing', async () => {
    put('bad.ts', `export const target = ${nested('[', ']', 20_000)};\n`);
    put('bad.py', `target = ${nested('[', ']', 20_000)}\n`);
    put('bad.rs', `const target: i32 = ${nested('(', ')', 20_000)};\n`);
    put('bad.go', `package p\nvar target = ${nested('(', ')', 20_000)}\n`);
    expect(filesOf(await find())).toEqual(expect.arrayContaining(['good.ts', 'good.py', 'bad.ts', 'bad.go']));
  });

  test('a file that ends its parser is told, and costs that file only', async () => {
    put('bad.py', `target = ${nested('{a:', '}', 700_000)}\n`);
    expect(await find()).toMatchObject({ skipped: ['bad.py'], symbols: [{ file: 'good.py' }, { file: 'good.ts' }] });
  });

  test('files that parsers do not come to an end of end the call, not the thread', async () => {
    tools.servers[Symbol.dispose]();
    tools = toolRunner({ workspace, limits: { symbolParseMs: 1 } });
    for (const it of ['a', 'b', 'c']) put(`${it}.py`, 'target = 1\n'.repeat(100_000));
    await expect(find()).rejects.toMatchObject({ code: 'CPU_LIMIT' });
  });

  test('a project that is more than the language server takes is parsed instead, and that is said', async () => {
    put('tsconfig.json', '{}');
    put('huge.ts', 'export const target = 1;\n'.repeat(4 * 1024 * 1024));
    const found = await find();
    expect(found.warning).toMatch(/needed more than \d+ bytes of memory/);
    expect(found).toMatchObject({ precision: 'syntactic', skipped: ['huge.ts'] });
    expect(filesOf(found)).toEqual(['good.py', 'good.ts']);
    // The server is not retried as long as nothing changes.
    const from = performance.now();
    expect(await find()).toHaveProperty('warning');
    expect(performance.now() - from).toBeLessThan(1000);
    rmSync(join(workspace, 'huge.ts'));
    expect(await find()).not.toHaveProperty('warning');
  }, 30_000);

  test('a server that is killed in the middle is told, and the next call has another one', async () => {
    // A pipe without a writer is never read to its end.
    execFileSync('mkfifo', [join(workspace, 'pipe.ts')]);
    put('tsconfig.json', '{}');
    const running = find();
    await until(() => tools.servers.typescript.pid !== undefined);
    process.kill(tools.servers.typescript.pid as number, 'SIGKILL');
    expect(await running).toMatchObject({ precision: 'syntactic', warning: expect.stringContaining('ended') });
    rmSync(join(workspace, 'pipe.ts'));
    const next = await find();
    expect(next).toMatchObject({ precision: 'mixed' });
    expect(next).not.toHaveProperty('warning');
  });

  test('a call that is aborted answers at once, one that waits behind it too, and its server is gone', async () => {
    execFileSync('mkfifo', [join(workspace, 'pipe.ts')]);
    put('tsconfig.json', '{}');
    const [first, second] = [new AbortController(), new AbortController()];
    const calls = [find('target', first.signal), find('target', second.signal)];
    await until(() => tools.servers.typescript.pid !== undefined);
    const pid = tools.servers.typescript.pid as number;
    const from = performance.now();
    for (const it of [second, first]) it.abort(new Error('enough'));
    for (const it of await Promise.allSettled(calls)) expect(it).toMatchObject({ reason: { message: 'enough' } });
    expect(performance.now() - from).toBeLessThan(100);
    await until(() => !isAlive(pid));
  });

  test('an idle server ends', async () => {
    tools = toolRunner({ workspace, limits: { symbolsIdleMs: 50 } });
    await find();
    await until(() => tools.servers.typescript.pid === undefined);
  });

  test('a source that is too large to be read is told', async () => {
    put('large.ts', `export const target = 1;\n${'// words\n'.repeat(400_000)}`);
    expect(await find()).toMatchObject({ skipped: ['large.ts'], truncated: true });
  });

  test('names of files that are no UTF-8, and lines of two million characters, are gone through', async () => {
    const odd = Buffer.concat([Buffer.from(`${workspace}/odd`), Buffer.from([0xff]), Buffer.from('.ts')]);
    writeFileSync(odd, 'export const target = 1;\n');
    put('long.ts', `export const target2 = 1; ${'target2;'.repeat(100_000)}\n`);
    expect(filesOf(await find())).toContain('good.ts');
    const { references, totalReferences } = await tools.run<{ references: unknown[]; totalReferences: number }>(
      'workspace_find_references',
      { symbol: 'target2', maxResults: 2000 },
    );
    expect(totalReferences).toBe(100_001);
    expect(references.at(-1)).toMatchObject({ column: 27 + 8 * 1998, context: expect.stringMatching(/^….{200}…$/) });
  }, 30_000);
});

describe('through a daemon', () => {
  let parent: string;
  let daemon: TestDaemon;
  let client: Client;
  beforeEach(async () => {
    parent = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-symbols-')));
    const workspace = join(parent, 'ws');
    for (const it of ['ws/src', 'ws-evil']) mkdirSync(join(parent, it), { recursive: true });
    daemon = await startDaemon({ workspace });
    client = await daemon.connect();
  });
  afterEach(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    rmSync(parent, { recursive: true, force: true });
  });
  const put = (name: string, text: string) => writeFileSync(join(parent, name), text);
  const find = (query: string) => dataOf(client.call('workspace_search_symbol', { query }));

  test('a search finds no symbol outside the workspace, behind links or in secrets, whatever a project says', async () => {
    put('ws-evil/evil.ts', 'export const theSecret = 1;\n');
    put('evil.json', '{ "compilerOptions": { "paths": { "theSecret": ["."] } } }');
    put('ws/src/.env.ts', 'export const theSecret = 2;\n');
    put('ws/src/a.ts', "import * as evil from 'evil';\nimport { theSecret as it } from './.env';\nit; evil;\n");
    put(
      'ws/tsconfig.json',
      JSON.stringify({
        extends: '../evil.json',
        compilerOptions: { paths: { evil: ['../ws-evil/evil.ts'] }, plugins: [{ name: '../ws-evil/evil.js' }] },
        include: ['**/*', '../ws-evil/**/*', '/proc/self/root/**/*.ts'],
      }),
    );
    symlinkSync('../ws-evil', join(parent, 'ws/up'));
    symlinkSync('../../ws-evil/evil.ts', join(parent, 'ws/src/link.ts'));
    expect(await find('theSecret')).toMatchObject({ symbols: [], totalResults: 0 });
    const { references } = await dataOf(client.call('workspace_find_references', { symbol: 'it', file: 'src/a.ts' }));
    expect(references.map((it) => it.file)).toEqual(['src/a.ts', 'src/a.ts']);
    for (const file of ['src/link.ts', '../ws-evil/evil.ts', 'up/evil.ts', 'src/.env.ts']) {
      const result = await client.call('workspace_find_references', { symbol: 'theSecret', file });
      expect(['ACCESS_DENIED', 'SENSITIVE_FILE']).toContain(result.success ? '' : result.error.code);
    }
  }, 30_000);

  test('an error of types shows nothing of a file outside, and nothing of a secret', async () => {
    put('ws-evil/evil.ts', 'export const theSecret = "hunter2";\n');
    put('ws/src/.env.ts', 'export const theSecret = "hunter3";\n');
    put(
      'ws/src/a.ts',
      "import { theSecret } from './.env';\nimport * as evil from '../../ws-evil/evil';\n" +
        'export const a: 1 = theSecret;\nexport const b: 1 = evil.theSecret;\n',
    );
    put('ws/tsconfig.json', '{ "include": ["**/*", "src/.env.ts", "../ws-evil/**/*"] }');
    for (const input of [{ files: ['src/a.ts'] }, { project: 'tsconfig.json' }]) {
      const found = await dataOf(client.call('code_type_check', input));
      expect(found.success).toBe(false);
      expect(JSON.stringify(found)).not.toContain('hunter');
      const missing = found.errors.filter((it) => it.code === 'TS2307');
      expect(missing[0]).toMatchObject({ line: 1, hint: expect.stringContaining('src/.env') });
      expect(missing[1]).not.toHaveProperty('hint');
    }
  }, 30_000);

  test('100 calls at once are all answered, and no server outlives the daemon', async () => {
    for (let at = 0; at < 20; at++) put(`ws/src/m${at}.ts`, `export class Thing${at} {}\nnew Thing${at}();\n`);
    put('ws/tsconfig.json', '{}');
    const calls = Array.from({ length: 100 }, (_, at) =>
      dataOf(client.call('workspace_find_references', { symbol: `Thing${at % 20}` })),
    );
    for (const it of await Promise.all(calls)) expect(it).toMatchObject({ totalReferences: 2, precision: 'semantic' });
    const servers = processesWith('--lsp').filter((it) => isBelow(it, daemon.pid));
    expect(servers.length).toBeGreaterThan(0);
    expect(servers.length).toBeLessThanOrEqual(2);
    daemon.process.kill('SIGKILL');
    await until(() => !servers.some(isAlive));
  }, 30_000);
});

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false; // ENOENT: gone.
  }
}
