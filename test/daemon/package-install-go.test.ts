/** package_install by go through a real daemon: the real go, and a proxy made in the test. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { type FakeProxy, startGoProxy } from '../support/go-proxy.ts';

const MS = 120_000;

type Result =
  | { success: true; data: Record<string, unknown> & { lockfileDiff: string } }
  | { success: false; error: { code: string; message: string; details?: Record<string, unknown> } };

describe.skipIf(!findProgram('go') || !findProgram('node'))('go', () => {
  let proxy: FakeProxy;
  let daemon: TestDaemon;
  let client: Client;

  const install = (input: object) =>
    client.call('package_install', { manager: 'go', ...input } as never) as unknown as Promise<Result>;
  const at = (path: string) => join(daemon.workspace, path);
  const read = (path: string) => readFileSync(at(path), 'utf8');
  const write = (path: string, text: string) => writeFileSync(at(path), text);
  const OWN = 'module example.test/own\n\ngo 1.18\n';
  async function refused(input: object, code: string, message: RegExp): Promise<Record<string, unknown>> {
    const result = await install(input);
    if (result.success) throw new Error(`installed: ${result.data.lockfileDiff}`);
    expect(result.error).toMatchObject({ code, message });
    return result.error.details ?? {};
  }

  beforeAll(async () => {
    proxy = await startGoProxy();
    daemon = await startDaemon({
      policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${proxy.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
      config: { packages: { goProxy: proxy.url, goSumDb: 'off' } },
    });
    client = await daemon.connect();
    proxy.publish('example.test/inner', { version: 'v1.0.0', ageDays: 300 });
    proxy.publish('example.test/plain', { version: 'v1.0.0', ageDays: 300 });
    proxy.publish('example.test/plain', { version: 'v1.1.0', ageDays: 30, mod: 'require example.test/inner v1.0.0\n' });
    proxy.publish('example.test/young', { version: 'v1.0.0', ageDays: 1 });
    proxy.publish('github.com/sirupsen/logruss', { version: 'v1.0.0', ageDays: 50 });
    proxy.publish('example.test/generating', {
      version: 'v1.0.0',
      ageDays: 50,
      files: {
        'gen.go':
          'package own\n\n//go:generate touch /tmp/canary canary\n// #cgo CFLAGS: -fplugin=./evil.so\nimport "C"\n',
      },
    });
  }, MS);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    write('go.mod', OWN);
    proxy.seen.length = 0;
  });

  test('adds a module with its hash, and installs what go.sum says', { timeout: MS * 2 }, async () => {
    expect(
      await install({ manager: 'auto', packages: [{ name: 'example.test/plain', version: 'v1.0.0' }] }),
    ).toMatchObject({
      data: {
        added: [
          {
            name: 'example.test/plain',
            version: 'v1.0.0',
            direct: true,
            integrity: expect.stringMatching(/^h1:/),
            publishedAt: expect.stringMatching(/^\d{4}-/),
          },
        ],
        advisories: 'not checked',
      },
    });
    expect(read('go.mod')).toContain('require example.test/plain v1.0.0');
    write('main.go', 'package main\n\nimport _ "example.test/plain"\n\nfunc main() {}\n');
    const built = await client.call('terminal_execute', {
      command: 'GOFLAGS=-mod=readonly GOPROXY=off go list -deps . | grep example',
    });
    expect(built).toMatchObject({ data: { stdout: 'example.test/plain\nexample.test/own\n' } });
    const update = await install({ packages: [{ name: 'example.test/plain' }] });
    expect(update).toMatchObject({
      data: { added: [{ version: 'v1.1.0' }] },
    });
    expect(read('go.mod')).toContain('example.test/plain v1.1.0');
    expect(await install({})).toMatchObject({ data: { lockfileDiff: '' } });
  });

  test('young versions, and names like those of popular modules: taken only by name', { timeout: MS }, async () => {
    const young = await refused({ packages: [{ name: 'example.test/young' }] }, 'POLICY_DENIED', /was published at/);
    expect(young.findings).toMatchObject([{ id: 'fresh:example.test/young@v1.0.0' }]);
    const like = await refused(
      { packages: [{ name: 'github.com/sirupsen/logruss' }] },
      'POLICY_DENIED',
      /is not github.com/,
    );
    expect(like.findings).toMatchObject([{ id: 'similar:github.com/sirupsen/logruss' }]);
    expect([readdirSync(daemon.workspace), read('go.mod')]).toEqual([['go.mod'], OWN]);
  });

  test('another content than go.sum says is not installed', { timeout: MS }, async () => {
    proxy.publish('example.test/swapped', { version: 'v1.0.0', ageDays: 50 });
    await install({ packages: [{ name: 'example.test/swapped' }] });
    const before = [read('go.mod'), read('go.sum')];
    proxy.publish('example.test/swapped', { version: 'v1.0.0', ageDays: 50, files: { 'evil.go': 'package own\n' } });
    await refused({}, 'POLICY_DENIED', /another content/);
    expect([read('go.mod'), read('go.sum')]).toEqual(before);
  });

  test.each([
    ['a folder', 'replace example.test/plain => ./evil\n'],
    ['another module', 'replace (\n\texample.test/plain => example.test/evil v1.0.0\n)\n'],
  ])('a replacement by %s is refused, before go runs', { timeout: MS }, async (_, text) => {
    write('go.mod', OWN + text);
    const details = await refused({}, 'POLICY_DENIED', /go\.mod sets replace/);
    expect(details.keys).toEqual(['replace']);
    expect(proxy.seen).toEqual([]);
  });

  test('nothing of a module runs, and no repository, toolchain or workspace file is followed', {
    timeout: MS,
  }, async () => {
    write('go.work', 'go 1.18\n\nuse ./evil\n\nreplace example.test/plain => ./evil\n');
    expect(await install({ packages: [{ name: 'example.test/generating' }] })).toMatchObject({ success: true });
    expect(existsSync(at('canary'))).toBe(false);
    await refused({ packages: [{ name: 'git.example/direct.git/x' }] }, 'NOT_FOUND', /no such module/);
    await refused({ packages: [{ name: 'fmt' }] }, 'INPUT_INVALID', /no name of a package for go/);
    await refused({ packages: [{ name: 'example.test/plain' }], dev: true }, 'INPUT_INVALID', /development only/);
    mkdirSync(at('vendor'));
    write('vendor/modules.txt', '');
    await refused({}, 'UNSUPPORTED', /vendor holds copies/);
  });
});
