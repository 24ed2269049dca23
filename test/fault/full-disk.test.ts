/** A state directory on a small disk: the output of commands leaves room for the daemon's records, and a full disk prevents no start. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ToolResult } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { dataOf, startDaemon, temporaryDir, until } from '../support/daemon.ts';

const MiB = 1024 * 1024;
let disk: string;
beforeEach(() => {
  disk = temporaryDir('disk');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m,mode=700', 'tmpfs', disk]);
});
afterEach(() => {
  execFileSync('umount', [disk]);
  rmSync(disk, { recursive: true });
});

const sizes = (folder: string) => readdirSync(folder).map((it) => statSync(join(folder, it)).size);
const print = (mib: number) => ({ command: `head -c ${mib * MiB} /dev/zero | tr '\\\\0' 'x'` });

test.runIf(process.getuid?.() === 0)(
  'two commands with 27 MB each on a disk of 48 stop no call with effects, and the older output makes room',
  async () => {
    const stateDir = join(disk, 'state');
    await using daemon = await startDaemon({ stateDir });
    await using client = await daemon.connect();
    for (let i = 0; i < 2; i++) await dataOf(client.call('terminal_execute', print(27)));
    await Promise.all(Array.from({ length: 2 }, () => dataOf(client.call('terminal_execute', print(27)))));
    for (let i = 0; i < 20; i++) await dataOf(client.call('file_write', { path: `f${i}`, content: 'x'.repeat(1000) }));
    await using operator = await daemon.connect({ role: 'operator' });
    const { disk: told } = (await operator.request('status', {})) as { disk: { freeBytes: number; advice?: string } };
    expect(told.freeBytes).toBeGreaterThan(10 * MiB);
    expect(told.advice).toBeUndefined();
    expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
  },
  60_000,
);

test.runIf(process.getuid?.() === 0)(
  'a daemon that finds its disk full makes room: kept outputs first, then what can be undone, the oldest first',
  async () => {
    const stateDir = join(disk, 'state');
    const folder = join(stateDir, 'results');
    {
      // Its workspace is gone when the next daemon starts.
      await using daemon = await startDaemon({ stateDir });
      await using client = await daemon.connect();
      await dataOf(client.call('file_write', { path: 'a', content: 'one' }));
      await dataOf(client.call('file_write', { path: 'a', content: 'two' }));
    }
    const names = ['0', '1', '2'].map((it) => `0000000${it}-0000-7000-8000-000000000000.log`);
    for (const name of names.slice(0, 2)) writeFileSync(join(folder, name), Buffer.alloc(8 * MiB));
    // Fills the rest of the disk to the last byte.
    expect(() => writeFileSync(join(folder, names[2] as string), Buffer.alloc(48 * MiB))).toThrow('ENOSPC');
    await using daemon = await startDaemon({ stateDir });
    await using client = await daemon.connect();
    await dataOf(client.call('file_write', { path: 'b', content: 'x' }));
    expect(existsSync(join(folder, names[0] as string))).toBe(false);
    await until(() => sizes(folder).reduce((sum, it) => sum + it, 0) < 36 * MiB);
    expect(readdirSync(join(stateDir, 'journal')).length).toBeGreaterThan(0);
  },
  60_000,
);

test.runIf(process.getuid?.() === 0)(
  'a daemon whose disk another program fills stays up, says so, changes nothing that it can not record, and goes on when there is room',
  async () => {
    const stateDir = join(disk, 'state');
    await using daemon = await startDaemon({ stateDir, args: ['--listen-http', '0'] });
    await using client = await daemon.connect();
    await using operator = await daemon.connect({ role: 'operator' });
    writeFileSync(join(daemon.workspace, 'before'), 'as it was');
    await dataOf(client.call('file_write', { path: 'first', content: 'x' }));
    await dataOf(client.call('terminal_execute', { command: 'true' }));

    // Not below the state directory: nothing that the daemon could drop.
    const foreign = join(disk, 'of-another-program');
    expect(() => writeFileSync(foreign, Buffer.alloc(64 * MiB))).toThrow('ENOSPC');
    const code = async (call: PromiseLike<ToolResult>) => {
      const result = await call;
      return result.success ? undefined : result.error.code;
    };
    const write = (path: string) => code(client.call('file_write', { path, content: 'y'.repeat(4000) }));
    const metrics = async () => ((await operator.request('metrics.read', {})) as { text: string }).text;
    // The room that the databases have already takes some more entries.
    let writes = 0;
    await until(async () => {
      await write(`w${writes++}`);
      return (await metrics()).includes('ringfence_audit_writable 0');
    }, 60_000);
    expect(await write('before')).toBe('STORE_FAILED');
    expect(readFileSync(join(daemon.workspace, 'before'), 'utf8')).toBe('as it was');
    expect(await code(client.call('terminal_execute', { command: 'touch ran' }))).toBe('STORE_FAILED');
    expect(existsSync(join(daemon.workspace, 'ran'))).toBe(false);
    const read = await client.call('file_read', { path: 'before' });
    expect(read).toMatchObject({ success: true, data: { content: 'as it was' } });
    expect(read.metadata.warnings).toEqual(['the audit log could not be written; this call may not be in it']);

    expect(Number(/^ringfence_disk_free_bytes (\d+)$/m.exec(await metrics())?.[1])).toBeLessThan(MiB);
    const http = daemon.listeners.find((it) => it.startsWith('http')) as string;
    const ready = async () => (await fetch(new URL('/readyz', http))).status;
    expect(await ready()).toBe(503);
    const { stdout } = await runCli(daemon, ['status']);
    expect(stdout).toContain('the audit log can not be written: calls that may change something are refused');
    expect(stdout).toMatch(/the disk has \d+ MiB left: .*make room on the disk of /);
    const doctor = await runCli(daemon, ['doctor']);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(/disk +0 MiB free at /);

    rmSync(foreign);
    await until(async () => (await write('after')) === undefined, 30_000);
    expect(await ready()).toBe(200);
    await dataOf(client.call('terminal_execute', { command: 'touch ran' }));
    expect(existsSync(join(daemon.workspace, 'ran'))).toBe(true);
    expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
    const after = await runCli(daemon, ['status']);
    expect(after.stdout).not.toMatch(/can not be written|the disk has/);
    expect(daemon.process.exitCode).toBeNull();
  },
  120_000,
);

test.runIf(process.getuid?.() === 0)('a refusal for lack of disk space says what to delete', async () => {
  const stateDir = join(disk, 'state');
  mkdirSync(stateDir, { mode: 0o700 });
  expect(() => writeFileSync(join(stateDir, 'daemon.log'), Buffer.alloc(46 * MiB))).not.toThrow();
  await expect(startDaemon({ stateDir })).rejects.toThrow(
    /too little space for the audit log: delete \S+daemon\.log \(\d+ KiB\)/,
  );
});

test.each([
  ['is on a full disk', '2>/dev/full'],
  ['has no reader any more', '2> >(sleep 1)'],
])('a daemon whose log %s goes on', async (_, log) => {
  const launcher = ['/bin/bash', '-c', `exec "$0" "$@" ${log}`];
  await using daemon = await startDaemon({ launcher, env: { RINGFENCE_LOG: 'trace' } });
  await using client = await daemon.connect();
  const begun = performance.now();
  do await dataOf(client.call('file_write', { path: 'a', content: 'x' }));
  while (performance.now() - begun < 1_500);
  await dataOf(client.call('terminal_execute', { command: 'true' }));
});
