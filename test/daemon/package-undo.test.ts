/** Installations are undone like commands: manifest, lockfile, and what is installed as far as it was kept. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { type FakeRegistry, startRegistry } from '../support/npm-registry.ts';

const MS = 120_000;

let registry: FakeRegistry;
let daemon: OpenDaemon;
let client: Client;

const install = (input: object) => client.call('package_install', input as never);
const undo = (callId: string) =>
  client.request('calls.undo', { callId }) as Promise<{ undo: string; conflicts: string[]; removed: string[] }>;
const at = (path: string) => join(daemon.workspace, path);
const read = (path: string) => readFileSync(at(path), 'utf8');

describe.skipIf(!findProgram('npm'))('an installation', () => {
  beforeAll(async () => {
    registry = await startRegistry();
    daemon = await openDaemon({
      policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${registry.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
      config: { packages: { registry: registry.url } },
    });
    client = await daemon.connect();
    registry.publish('plain', { version: '1.0.0', ageDays: 300 });
    registry.publish('plain', { version: '1.1.0', ageDays: 30 });
    const isRead = async () =>
      (await client.call('terminal_execute', { command: 'date +%N > .ready' })).metadata.undo === 'full';
    await until(isRead, 40_000);
  }, MS);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    writeFileSync(at('package.json'), '{"name":"project"}');
  });

  test('an installation is undone as a whole if git ignores nothing of it', { timeout: MS }, async () => {
    const made = await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    expect(made).toMatchObject({ success: true, metadata: { undo: 'full' } });
    const updated = await install({ packages: [{ name: 'plain', version: '1.1.0' }] });
    expect(await undo(updated.callId)).toMatchObject({ conflicts: [], undo: 'full' });
    expect(JSON.parse(read('node_modules/plain/package.json'))).toMatchObject({ version: '1.0.0' });
    expect(JSON.parse(read('package.json'))).toMatchObject({ dependencies: { plain: '^1.0.0' } });
    expect(await undo(made.callId)).toMatchObject({ conflicts: [], undo: 'full' });
    expect(read('package.json')).toBe('{"name":"project"}');
    expect(existsSync(at('package-lock.json'))).toBe(false);
    expect(existsSync(at('node_modules/plain'))).toBe(false);
  });

  test('an installation into an ignored node_modules is undone in part, and says how to restore the rest', {
    timeout: MS,
  }, async () => {
    writeFileSync(at('.gitignore'), 'node_modules/\n');
    await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    const before = [read('package.json'), read('package-lock.json')];
    const made = await install({ packages: [{ name: 'plain', version: '1.1.0' }] });
    expect(made).toMatchObject({
      metadata: { undo: 'partial', undoMissing: [{ path: 'node_modules/', why: 'ignored' }] },
      data: { restoreCommand: 'npm ci --ignore-scripts' },
    });
    expect(await undo(made.callId)).toMatchObject({
      left: [{ path: 'node_modules/', why: 'ignored' }],
      restoreCommand: 'npm ci --ignore-scripts',
    });
    expect([read('package.json'), read('package-lock.json')]).toEqual(before);
    // What the lockfile says is installed again.
    expect(await install({})).toMatchObject({ data: { lockfileDiff: '' } });
    expect(JSON.parse(read('node_modules/plain/package.json'))).toMatchObject({ version: '1.0.0' });
  });
});
