/** Output for people and programs: bytes are unchanged, characters whole, terminals not controlled, memory bounded. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, ringfence, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const MiB = 1024 * 1024;
let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const run = (command: string, settings: object = {}) => client.call('terminal_execute', { command }, settings);
const flags = () => ['--state', daemon.stateDir, '--socket', daemon.socket];

/** What a verb prints to a terminal of 80 columns, made by `script`. */
async function onTerminal(...args: string[]): Promise<string> {
  const line = [process.execPath, ringfence, ...args, ...flags()]
    .map((it) => `'${it.replaceAll("'", "'\\''")}'`)
    .join(' ');
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd: daemon.workspace,
    stdio: ['ignore', 'pipe', 'inherit'],
    // Without our own colours, any control character would be the call's.
    env: { ...process.env, NO_COLOR: '1' },
  });
  return text(child.stdout);
}

const HOSTILE = "printf '\\033]0;owned\\007\\033[2J\\302\\233A\\177\\342\\200\\256txt.exe\\r'";

test('a prompt is shown while it waits, though it may be the beginning of a secret', async () => {
  const running = run("printf 'Password: '; until [ -e answered ]; do sleep 0.05; done", { callId: 'prompt' });
  const shown = (await client.output('prompt').next()).value as { data: Uint8Array };
  expect(Buffer.from(shown.data).toString()).toBe('Password: ');
  await dataOf(client.call('file_write', { path: 'answered', content: '' }));
  expect(await dataOf(running)).toMatchObject({ stdout: 'Password: ' });
});

describe('what would drive a terminal', () => {
  test.each([
    [
      'logs',
      async () => {
        await dataOf(run(HOSTILE, { callId: 'hostile' }));
        return onTerminal('logs', 'hostile');
      },
    ],
    ['call', () => onTerminal('call', 'terminal_execute', `command=${HOSTILE}`)],
    ['call --json', () => onTerminal('call', 'terminal_execute', `command=${HOSTILE}`, '--json')],
    ['call --progress', () => onTerminal('call', 'terminal_execute', `command=${HOSTILE}`, '--progress')],
  ])('`ringfence %s` shows terminal control sequences escaped instead of sending them', async (_, shown) => {
    const sent = await shown();
    expect(sent).toContain('owned');
    expect(sent.replaceAll('\r\n', '\n')).not.toMatch(/(?![\n\t])[\p{Cc}\u202e]/u); // The terminal adds \r.
  });

  test('control sequences stay unchanged in the log of a call, and are escaped in the daemon’s log', async () => {
    await dataOf(run(HOSTILE, { callId: 'kept' }));
    const { entries } = (await client.request('results.read', { callId: 'kept', afterSeq: 0 })) as {
      entries: { data: Uint8Array }[];
    };
    expect(Buffer.concat(entries.map((it) => it.data)).toString()).toBe(
      '\x1b]0;owned\x07\x1b[2J\u009bA\x7f\u202etxt.exe\r',
    );
    const raw = new RawPeer(daemon.socket);
    await raw.hello({ client: { name: 'evil\x1b[2J\u009b\x7f', version: '1' } });
    await until(() => daemon.log().includes('evil'));
    expect(daemon.log()).not.toMatch(/(?!\n)\p{Cc}/u);
    raw.socket.destroy();
  });
});

test('characters that pieces and pages cut come out whole', async () => {
  const letters = '€𝄞é'.repeat(30_000);
  await dataOf(client.call('file_write', { path: 'letters', content: letters }));
  // Pieces of 7 bytes end inside most characters.
  const result = await run(
    'head -c 63 letters | while IFS= read -r -d "" -n 7 x; do :; done; dd if=letters bs=7 status=none',
    { callId: 'letters' },
  );
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let whole = '';
  for await (const { data } of client.output('letters')) whole += decoder.decode(data, { stream: true });
  expect(whole + decoder.decode()).toBe(letters);
  const { ref } = result.metadata.truncated as { ref: string };
  const pages: Uint8Array[] = [];
  for (let offset = 0; ; ) {
    const page = (await client.request('results.read', { ref, offset, limit: 10_001 })) as {
      data: Uint8Array;
      eof: boolean;
    };
    pages.push(page.data);
    offset += page.data.length;
    if (page.eof) break;
  }
  expect(Buffer.concat(pages).toString()).toBe(letters);
  // Text is never cut inside a character.
  const { stdout } = result.success ? (result.data as { stdout: string }) : { stdout: '\ufffd' };
  expect(stdout).toContain('bytes left out');
  expect(stdout).not.toContain('\ufffd');
});

test.each([4, 32, 96])(
  '%i MiB for a client that does not read are no memory of the daemon’s',
  async (size) => {
    const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]) / 1024;
    const raw = new RawPeer(daemon.socket);
    await raw.hello({ workspace: daemon.workspace });
    await dataOf(run('yes | head -c 8M'));
    const before = rss();
    let peak = before;
    const looking = setInterval(() => {
      peak = Math.max(peak, rss());
    }, 10);
    raw.socket.pause();
    const params = {
      tool: 'terminal_execute',
      input: { command: `yes | head -c ${size * MiB}` },
      options: { callId: `s${size}`, progress: true },
    };
    raw.send({ id: size, method: 'tools.call', params });
    await using operator = await daemon.connect({ role: 'operator' });
    const isOver = async () =>
      ((await operator.request('calls.get', { callId: `s${size}` }).catch(() => ({}))) as { result?: unknown })
        .result !== undefined;
    await until(isOver, 20_000);
    clearInterval(looking);
    expect(peak - before).toBeLessThan(48);
    raw.socket.resume();
    const { result } = await raw.answer((it) => it.id === size);
    expect(result).toMatchObject({ success: true, metadata: { resources: { outputBytes: size * MiB } } });
    raw.socket.destroy();
  },
  30_000,
);
