import * as fs from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
let root: string;
beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
  root = daemon.workspace;
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(() => {
  for (const name of fs.readdirSync(root)) fs.rmSync(join(root, name), { recursive: true });
});

/** Makes a file whose times are old enough that later changes show in them. */
async function settled(path: string, content: string): Promise<void> {
  fs.mkdirSync(join(root, path, '..'), { recursive: true });
  fs.writeFileSync(join(root, path), content);
  await old();
}
const old = () => new Promise<void>((resolve) => setTimeout(resolve, 60));
const read = async (path: string, settings = {}) => {
  const result = await client.call('file_read', { path }, settings);
  return { cached: result.metadata.cached, content: result.success ? result.data.content : result.error.code };
};

describe('a file that was read', () => {
  test('an unchanged file is answered from the cache without its host', async () => {
    await settled('a.txt', 'one');
    expect(await read('a.txt')).toEqual({ cached: false, content: 'one' });
    const again = await client.call('file_read', { path: 'a.txt' });
    expect(again).toMatchObject({ success: true, data: { content: 'one' }, metadata: { cached: true } });
    expect(again.metadata.resources).toMatchObject({ enforcedBy: 'cache', cpuMs: 0 });
    expect(again.metadata.hostPid).toBeUndefined();
  });

  test('a file is read again for a caller that does not want a cached one', async () => {
    await settled('a.txt', 'one');
    await read('a.txt');
    expect(await read('a.txt', { cache: false })).toEqual({ cached: false, content: 'one' });
  });

  test('a file is read again while a change could hide in the tick of a clock', async () => {
    fs.writeFileSync(join(root, 'a.txt'), 'one');
    await read('a.txt');
    expect((await read('a.txt')).cached).toBe(false);
  });

  test.each<[string, (path: string) => void]>([
    [
      'written in place, with its size and time of change put back',
      (path) => {
        const { atime, mtime } = fs.statSync(path);
        fs.writeFileSync(path, 'two');
        fs.utimesSync(path, atime, mtime);
      },
    ],
    [
      'replaced by another of the same size and time',
      (path) => {
        const { atime, mtime } = fs.statSync(path);
        fs.writeFileSync(`${path}.new`, 'two');
        fs.utimesSync(`${path}.new`, atime, mtime);
        fs.renameSync(`${path}.new`, path);
      },
    ],
    [
      'reached by a link that now leads elsewhere',
      (path) => {
        fs.writeFileSync(`${path}.other`, 'two');
        fs.rmSync(path);
        fs.symlinkSync(`${path.split('/').at(-1)}.other`, path);
      },
    ],
  ])('a file is read anew after it was %s', async (_, change) => {
    await settled('a.txt', 'one');
    await read('a.txt');
    expect((await read('a.txt')).cached).toBe(true);
    change(join(root, 'a.txt'));
    expect(await read('a.txt')).toEqual({ cached: false, content: 'two' });
  });

  test('a removed file is NOT_FOUND although it was cached', async () => {
    await settled('a.txt', 'one');
    await read('a.txt');
    fs.rmSync(join(root, 'a.txt'));
    expect((await read('a.txt')).content).toBe('NOT_FOUND');
  });

  test('a cached file is not given to a session whose policy allows less', async () => {
    await settled('a.txt', 'one');
    await read('a.txt');
    fs.writeFileSync(join(root, '.ringfence.yaml'), 'x');
    fs.rmSync(join(root, '.ringfence.yaml'));
    const { createClient } = await import('../../src/client/client.ts');
    await using other = await createClient({ socket: daemon.socket, workspace: root, policy: 'read-only' });
    expect((await other.call('file_read', { path: 'a.txt' })).metadata.cached).toBe(false);
  });
});

test('a list is given again until something in its folders changes', async () => {
  await settled('src/a.txt', 'one');
  const list = async () => {
    const result = await client.call('file_list', { path: '.', recursive: true, sizes: true });
    return [result.metadata.cached, result.success && result.data.entries.map((it) => `${it.path}:${it.size}`).join()];
  };
  const before = await list();
  expect(await list()).toEqual([true, before[1]]);
  fs.writeFileSync(join(root, 'src/b.txt'), 'two');
  expect((await list())[0]).toBe(false);
  await old();
  await list();
  fs.appendFileSync(join(root, 'src/a.txt'), '!');
  expect((await list())[1]).toContain('src/a.txt:4');
});

test('the status shows the hits of the cache', async () => {
  await settled('a.txt', 'one');
  await read('a.txt');
  await read('a.txt');
  const { cache } = (await client.request('status', {})) as { cache: { hits: number; entries: number } };
  expect(cache).toMatchObject({ strategy: 'lru', hits: expect.any(Number), bytes: expect.any(Number) });
  expect(cache.hits).toBeGreaterThan(0);
});

test('no random edits, by files, renames or commands, ever make a cached answer wrong', async () => {
  const name = fc.constantFrom('a', 'b', 'd/c');
  const text = fc.constantFrom('x', 'y', 'zz');
  const step = fc.oneof(
    fc.record({ do: fc.constant('write' as const), name, text }),
    fc.record({ do: fc.constant('same-time' as const), name, text }),
    fc.record({ do: fc.constant('rename' as const), name, to: name }),
    fc.record({ do: fc.constant('remove' as const), name }),
    fc.record({ do: fc.constant('tool' as const), name, text }),
    fc.record({ do: fc.constant('shell' as const), name, text }),
    fc.record({ do: fc.constant('wait' as const) }),
  );
  type Step = typeof step extends fc.Arbitrary<infer It> ? It : never;
  const at = (it: string) => join(root, it);
  let hits = 0;
  const run = async (it: Step) => {
    fs.mkdirSync(at('d'), { recursive: true });
    if (it.do === 'wait') return old();
    if (it.do === 'write') return fs.writeFileSync(at(it.name), it.text);
    if (it.do === 'remove') return fs.rmSync(at(it.name), { force: true });
    if (it.do === 'rename') return fs.existsSync(at(it.name)) ? fs.renameSync(at(it.name), at(it.to)) : undefined;
    if (it.do === 'tool') return void (await client.call('file_write', { path: it.name, content: it.text }));
    if (it.do === 'shell')
      return void (await client.call('terminal_execute', { command: `printf ${it.text} > ${it.name}` }));
    if (!fs.existsSync(at(it.name))) return undefined;
    const { atime, mtime } = fs.statSync(at(it.name));
    fs.writeFileSync(at(it.name), it.text);
    return fs.utimesSync(at(it.name), atime, mtime);
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      for (const it of steps) {
        await run(it);
        for (const file of ['a', 'b', 'd/c', 'a']) {
          const { content, cached } = await read(file);
          hits += cached ? 1 : 0;
          expect(content).toBe(fs.existsSync(at(file)) ? fs.readFileSync(at(file), 'utf8') : 'NOT_FOUND');
        }
        const listed = await client.call('file_list', { path: '.', recursive: true });
        hits += listed.metadata.cached ? 1 : 0;
        const real = fs.readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
        expect(listed.success && listed.data.entries.map((entry) => entry.path).sort()).toEqual(real);
      }
    }),
    { numRuns: 25 },
  );
  // Otherwise the test would prove nothing.
  expect(hits).toBeGreaterThan(50);
}, 60_000);

test('the types of a project are checked again after one of its files changed', async () => {
  await settled('tsconfig.json', '{ "compilerOptions": { "types": [] }, "include": ["a.ts"] }');
  await settled('a.ts', 'export const a: number = 1;\n');
  const check = () => client.call('code_type_check' as string, { project: '.' });
  expect(await check()).toMatchObject({ data: { totalErrors: 0 } });
  await client.call('file_write', { path: 'a.ts', content: "export const a: number = 'x';\n" });
  expect(await check()).toMatchObject({ data: { totalErrors: 1 }, metadata: { cached: false } });
});
