/** package_install by cargo through a real daemon: the real cargo, and an index made in the test. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { cargoToolchain, type FakeCrates, startCrates } from '../support/cargo-index.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

const MS = 120_000;
const OWN = '[package]\nname = "own"\nversion = "0.1.0"\nedition = "2021"\n';
const toolchain = cargoToolchain();

type Result =
  | { success: true; data: Record<string, unknown> & { lockfileDiff: string } }
  | { success: false; error: { code: string; message: string; details?: Record<string, unknown> } };

describe.skipIf(toolchain === undefined || !findProgram('node'))('cargo', () => {
  let crates: FakeCrates;
  let daemon: TestDaemon;
  let client: Client;

  const install = (input: object) =>
    client.call('package_install', { manager: 'cargo', ...input } as never) as unknown as Promise<Result>;
  const at = (path: string) => join(daemon.workspace, path);
  const read = (path: string) => readFileSync(at(path), 'utf8');
  const write = (path: string, text: string) => writeFileSync(at(path), text);
  async function refused(input: object, code: string, message: RegExp): Promise<Record<string, unknown>> {
    const result = await install(input);
    if (result.success) throw new Error(`installed: ${result.data.lockfileDiff}`);
    expect(result.error).toMatchObject({ code, message });
    return result.error.details ?? {};
  }

  beforeAll(async () => {
    crates = await startCrates();
    daemon = await startDaemon({
      policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${crates.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
      config: {
        packages: { cargoIndex: crates.url },
        ...(toolchain?.startsWith('/usr') === false && { toolchains: [toolchain] }),
      },
    });
    client = await daemon.connect();
    crates.publish('plain', { version: '1.0.0', ageDays: 300 });
    crates.publish('plain', { version: '1.1.0', ageDays: 30, needs: ['inner'] });
    crates.publish('inner', { version: '1.0.0', ageDays: 300 });
    crates.publish('young', { version: '1.0.0', ageDays: 1 });
    crates.publish('ageless', { version: '1.0.0' });
    crates.publish('serde_jsn', { version: '1.0.0', ageDays: 50 });
    crates.publish('built', {
      version: '1.0.0',
      ageDays: 50,
      files: { 'build.rs': 'fn main() { std::fs::write("/tmp/canary", "").unwrap(); }' },
    });
  }, MS);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await crates[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    mkdirSync(at('src'));
    write('src/lib.rs', '');
    write('Cargo.toml', OWN);
    crates.seen.length = 0;
  });

  test('adds, updates and installs what Cargo.lock says', { timeout: MS * 2 }, async () => {
    const added = await install({ manager: 'auto', packages: [{ name: 'plain', version: '=1.0.0' }], dev: true });
    expect(added).toMatchObject({
      data: {
        added: [
          {
            name: 'plain',
            version: '1.0.0',
            direct: true,
            integrity: expect.stringMatching(/^[0-9a-f]{64}$/),
            publishedAt: expect.stringMatching(/^\d{4}-/),
          },
        ],
        advisories: 'not checked',
      },
    });
    expect(read('Cargo.toml')).toMatch(/\[dev-dependencies\]\nplain = "=1\.0\.0"/);
    expect(await install({ packages: [{ name: 'plain', version: '1' }], dev: true })).toMatchObject({
      data: {
        added: [{ name: 'inner', direct: false }],
        changed: [{ name: 'plain', from: '1.0.0', version: '1.1.0' }],
      },
    });
    expect(await install({})).toMatchObject({ data: { lockfileDiff: '' } });
    const built = await client.call('terminal_execute', {
      command: 'cargo metadata --offline --format-version 1 | grep -c plain',
    });
    expect(existsSync(at('target'))).toBe(false);
    expect(built).toMatchObject({ success: true });
  });

  test('young versions, and names like those of popular crates: taken only by name', { timeout: MS }, async () => {
    const young = await refused({ packages: [{ name: 'young' }] }, 'POLICY_DENIED', /was published at/);
    expect(young.findings).toMatchObject([{ id: 'fresh:young@1.0.0' }]);
    await refused({ packages: [{ name: 'ageless' }] }, 'POLICY_DENIED', /no known time/);
    const like = await refused({ packages: [{ name: 'serde_jsn' }] }, 'POLICY_DENIED', /is not serde_json/);
    expect(like.findings).toMatchObject([{ id: 'similar:serde_jsn' }]);
    expect([readdirSync(daemon.workspace).sort(), read('Cargo.toml')]).toEqual([['Cargo.toml', 'src'], OWN]);
  });

  test('a build script does not run, and other content than the index says is not installed', {
    timeout: MS,
  }, async () => {
    expect(await install({ packages: [{ name: 'built' }] })).toMatchObject({ success: true });
    expect(existsSync(at('target'))).toBe(false);
    crates.publish('swapped', { version: '1.0.0', ageDays: 50, checksum: 'a'.repeat(64) });
    const before = [read('Cargo.toml'), read('Cargo.lock')];
    await refused({ packages: [{ name: 'swapped' }] }, 'CODE_ERROR', /failed/);
    expect([read('Cargo.toml'), read('Cargo.lock')]).toEqual(before);
  });

  test.each([
    ['git = "https://git.example/x"', /asked for from "git = /],
    ['path = "../x"', /asked for from "path = /],
    ['version = "1", registry = "other"', /asked for from "registry = /],
  ])('a dependency with %s is refused, before cargo runs', { timeout: MS }, async (spec, message) => {
    for (const table of ['dependencies', "target.'cfg(unix)'.build-dependencies"]) {
      write('Cargo.toml', `${OWN}\n[${table}]\nx = { ${spec} }\n`);
      await refused({}, 'POLICY_DENIED', message);
    }
    expect(crates.seen).toEqual([]);
  });

  test('a lockfile that was made to lead elsewhere is not installed', { timeout: MS }, async () => {
    await install({ packages: [{ name: 'plain', version: '=1.0.0' }] });
    const good = read('Cargo.lock');
    for (const [from, to] of [
      [
        'registry+https://github.com/rust-lang/crates.io-index',
        'git+https://git.example/x#0123456789012345678901234567890123456789',
      ],
      ['registry+https://github.com/rust-lang/crates.io-index', 'registry+https://evil.example/index'],
      [/checksum = ".*"\n/, ''],
    ] as const) {
      write('Cargo.lock', good.replace(from, to));
      const result = await install({});
      // cargo may also repair such an entry, as the person would then see.
      if (result.success) expect(read('Cargo.lock')).toBe(good);
    }
  });

  test.each([
    ['.cargo/config.toml', 'build', '[build]\nrustc-wrapper = "./evil.sh"\n'],
    ['.cargo/config.toml', 'source', '[source.crates-io]\nreplace-with = "evil"\n'],
    ['.cargo/config', 'registries', '[registries.evil]\nindex = "http://127.0.0.1:1/"\n'],
    ['.cargo/config.toml', 'http', '[http]\nproxy = "http://127.0.0.1:1"\n'],
    ['.cargo/config.toml', 'credential-alias', '[credential-alias]\nx = ["./evil.sh"]\n'],
    ['rust-toolchain.toml', 'path', '[toolchain]\npath = "./evil"\n'],
    ['Cargo.toml', 'patch', `${OWN}\n[patch.crates-io]\nplain = { path = "./evil" }\n`],
  ])('%s with %s is refused by that name, before cargo runs', { timeout: MS }, async (file, key, text) => {
    mkdirSync(at('.cargo'), { recursive: true });
    write(file, text);
    const details = await refused(
      { packages: [{ name: 'plain' }] },
      'POLICY_DENIED',
      /may run code or move the registry/,
    );
    expect(details.keys).toEqual([key]);
    expect(crates.seen).toEqual([]);
  });

  test('a workspace is UNSUPPORTED; what cargo does not know is an error', { timeout: MS }, async () => {
    await refused({ packages: [{ name: 'no-such-crate' }] }, 'NOT_FOUND', /no such crate/);
    await refused(
      { packages: [{ name: 'plain', version: 'latest' }] },
      'INPUT_INVALID',
      /no version or range of cargo/,
    );
    write('Cargo.toml', `${OWN}\n[workspace]\n`);
    await refused({}, 'UNSUPPORTED', /has a workspace/);
    mkdirSync(at('inside'));
    write('inside/Cargo.toml', OWN);
    await refused({ projectPath: 'inside' }, 'UNSUPPORTED', /part of a workspace/);
  });
});
