/** Kills a daemon in the middle of its work: for each effect, its record holds an earlier intent. */
import { readdirSync, rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { AuditRecord } from '../../src/store/audit/log.ts';
import { startDaemon, temporaryDir, until } from '../support/daemon.ts';

const CALLS = 1000;

test('no effect of a thousand calls is without its intent, and outcomes that nobody knows are shown as unknown', async () => {
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  try {
    const killed = await startDaemon({ stateDir, workspace });
    const client = await killed.connect();
    let next = 0;
    // Few at once: a test that a busy machine holds up sends no more meanwhile, so that the kill comes in their middle.
    const calls = Array.from({ length: 50 }, async () => {
      while (next < CALLS && killed.process.signalCode === null) {
        next += 1;
        await client.call('file_write', { path: `f${next}`, content: 'x' }).catch(() => undefined);
      }
    });
    const written = () => readdirSync(workspace).filter((it) => /^f\d+$/.test(it));
    await until(() => written().length > CALLS / 4, 30_000);
    killed.process.kill('SIGKILL');
    await killed.ended;
    await Promise.all(calls);
    await client[Symbol.asyncDispose]();

    await using daemon = await startDaemon({ stateDir, workspace });
    await using operator = await daemon.connect({ role: 'operator' });
    const entries: AuditRecord[] = [];
    for (let cursor: string | undefined; ; ) {
      const filter = { kind: 'intent', order: 'oldest', limit: 1000, ...(cursor !== undefined && { cursor }) };
      const page = (await operator.request('audit.query', filter)) as { entries: AuditRecord[]; cursor?: string };
      entries.push(...page.entries);
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    const intended = new Set(entries.map((it) => (it.input as { path: string }).path));
    expect(written().length).toBeGreaterThan(CALLS / 5);
    expect(written().length).toBeLessThan(CALLS);
    expect(written().filter((it) => !intended.has(it))).toEqual([]);
    expect(entries.filter((it) => it.outcome === 'unknown').length).toBeGreaterThan(0);
    expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
    rmSync(workspace, { recursive: true, force: true });
  }
});

test('no effect of a program is without two intents, its own call and the program, though that one was not waited for', async () => {
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  try {
    const killed = await startDaemon({ stateDir, workspace });
    const client = await killed.connect();
    const code = "for (let i = 0; i < 900; i++) await tools.file_write({ path: `f${i}`, content: 'x' });";
    const call = client.call('code_run', { code }).catch(() => undefined);
    const written = () => readdirSync(workspace).filter((it) => /^f\d+$/.test(it));
    await until(() => written().length > 20, 30_000);
    killed.process.kill('SIGKILL');
    await killed.ended;
    await call;
    await client[Symbol.asyncDispose]();

    await using daemon = await startDaemon({ stateDir, workspace });
    await using operator = await daemon.connect({ role: 'operator' });
    const filter = { kind: 'intent', order: 'oldest', limit: 1000 };
    const { entries } = (await operator.request('audit.query', filter)) as { entries: AuditRecord[] };
    const [program, ...children] = entries;
    expect(program?.tool).toBe('code_run');
    expect(children.every((it) => it.detail?.parentCallId === program?.callId)).toBe(true);
    const intended = new Set(children.map((it) => (it.input as { path: string }).path));
    expect(written().filter((it) => !intended.has(it))).toEqual([]);
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
    rmSync(workspace, { recursive: true, force: true });
  }
});
