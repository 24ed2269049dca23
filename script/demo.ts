// The demo: starts a daemon for this repository, makes four calls, and shows what confined each. Started by script/demo.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { createClient, type ToolResult } from '../src/client.ts';

const repository = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const state = mkdtempSync(join(tmpdir(), 'ringfence-demo-'));
const note = 'ringfence-demo-note.txt';
const policy = join(state, 'policy.yaml');
const allow = `# What this daemon's agents may do; without it, commands are not allowed.\ntiers:\n  execute: { decision: allow }\n`;
writeFileSync(policy, allow, { mode: 0o600 });

const daemon = execa(
  process.execPath,
  [
    join(repository, 'bin/ringfenced.js'),
    '--tell-ready',
    '--state',
    state,
    '--socket',
    join(state, 'd.sock'),
    '--workspace',
    repository,
    '--policy',
    policy,
  ],
  { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], buffer: false, reject: false },
);
let log = '';
daemon.stderr?.on('data', (chunk) => (log += chunk));

try {
  let notice = '';
  for await (const chunk of daemon.stdio[3] as NodeJS.ReadableStream) notice += chunk;
  const { error, confinement } = JSON.parse(notice) as {
    error?: string;
    confinement?: { level: string; missing: string[]; advice: string };
  };
  if (error) throw new Error(error);
  console.log(
    `daemon pid ${daemon.pid}, confinement level ${confinement?.level} (missing: ${confinement?.missing.join(', ')}) ${confinement?.advice}\n`,
  );

  await using client = await createClient({ socket: join(state, 'd.sock'), workspace: repository });
  const level = confinement?.level;
  const show = <D>(title: string, result: ToolResult<D>, text: (data: D) => string): void => {
    const { tier, hostPid, durationMs } = result.metadata;
    console.log(`— ${title}\n  tier ${tier}, host pid ${hostPid}, ${durationMs.toFixed(1)} ms, level ${level}`);
    if (!result.success)
      throw new Error(`${result.error.code}: ${result.error.message} ${result.error.suggestion ?? ''}`);
    console.log(`${text(result.data).trimEnd().replace(/^/gm, '  | ')}\n`);
  };

  show('file_list {}', await client.call('file_list', {}), ({ entries }) =>
    entries.map((it) => `${it.mode} ${String(it.size).padStart(8)}  ${it.path}`).join('\n'),
  );
  show(
    'file_read {"path":"README.md","maxLines":6}',
    await client.call('file_read', { path: 'README.md', maxLines: 6 }),
    (it) => it.content,
  );
  show(
    `file_write {"path":"${note}", …}`,
    await client.call('file_write', { path: note, content: 'written by the write host\n' }),
    (it) => `${it.path}: ${it.bytesWritten} bytes, ${it.hash}`,
  );
  const command = `id; cat ${note}; rm ${note}; ls /home /root "$HOME/.ssh"; grep Seccomp: /proc/self/status; echo hi >/dev/tcp/127.0.0.1/22`;
  show(
    `terminal_execute ${JSON.stringify(command)}`,
    await client.call('terminal_execute', { command }),
    (it) => `${it.stdout}${it.stderr}`,
  );

  const refused = await client.call('file_read', { path: '../../etc/passwd' });
  if (refused.success) throw new Error('a path outside the workspace was read');
  console.log(`— file_read {"path":"../../etc/passwd"}\n  | ${refused.error.code}: ${refused.error.message}\n`);
} catch (error) {
  console.error(log);
  throw error;
} finally {
  daemon.kill('SIGTERM');
  await daemon;
  rmSync(state, { recursive: true, force: true });
  rmSync(join(repository, note), { force: true });
}
console.log('The daemon, its hosts and all files of this demo are gone.');
