// The demo: an agent's calls on a copy of this repository, and what a person sees of them. Started by script/demo.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { createClient } from '../src/client/client.ts';

const repository = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const place = mkdtempSync(join(tmpdir(), 'ringfence-demo-'));
const [state, project] = [join(place, 'state'), join(place, 'project')];
const socket = join(state, 'd.sock');

await execa('git', ['clone', '--quiet', '--no-hardlinks', '--depth=20', `file://${repository}`, project]);
const secret = randomUUID();
writeFileSync(join(project, '.env'), `API_KEY=${secret}\n`);
writeFileSync(
  join(project, 'demo.test.mjs'),
  `import { test } from 'node:test';
import { strictEqual } from 'node:assert';
import { readFileSync } from 'node:fs';
test('the package has its name', () => strictEqual(JSON.parse(readFileSync('package.json')).name, 'ringfence'));
`,
);

const args = ['--tell-ready', '--state', state, '--socket', socket, '--workspace', project, '--policy', 'default'];
const daemon = execa(process.execPath, [join(repository, 'bin/ringfenced.js'), ...args], {
  stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  buffer: false,
  reject: false,
});
let log = '';
daemon.stderr?.on('data', (chunk) => (log += chunk));

const print = (text: string): void => console.log(`${text.trimEnd().replace(/^/gm, '  | ')}\n`);

try {
  let notice = '';
  for await (const chunk of daemon.stdio[3] as NodeJS.ReadableStream) notice += chunk;
  const { error, confinement } = JSON.parse(notice) as { error?: string; confinement?: { level: string } };
  if (error) throw new Error(error);
  console.log(`A daemon for a copy of this repository; confinement level ${confinement?.level}, policy default.\n`);

  await using agent = await createClient({ socket, workspace: project });
  const token = readFileSync(join(state, 'operator.token'), 'utf8').trim();
  await using person = await createClient({ socket, workspace: project, role: 'operator', token });
  using _ = await person.onApproval(({ door }) => {
    console.log(`  The person is asked: ${door?.program} wants ${door?.target}. The person says no.`);
    return { decision: 'deny' };
  });
  const run = async (command: string) => {
    console.log(`$ ${command}`);
    const result = await agent.call('terminal_execute', { command });
    if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
    print(`${result.data.stdout}${result.data.stderr}` || '(no output)');
    return result;
  };

  console.log('1. What the box contains runs unasked.\n');
  await run('node --test demo.test.mjs | grep ^ok; git log --oneline -2; ls /home /root');

  console.log('2. A secret stays hidden, whatever the command.\n');
  const hidden = await run('cat .env; grep -rs ^API_KEY . || echo "grep finds nothing"');
  if (JSON.stringify(hidden).includes(secret)) throw new Error('the secret was told');

  console.log('3. A door asks: the connection waits for a person.\n');
  const { metadata } = await run('curl -sS https://example.org/');
  print(`${metadata.denied?.[0]?.target}: ${metadata.denied?.[0]?.reason}`);

  console.log('4. What is gone comes back.\n');
  const { callId } = await run('rm -rf .git workers 2>/dev/null; git status');
  const { conflicts, error: refused } = await agent.undo(callId);
  if (refused || conflicts.length > 0) throw new Error(refused?.message ?? `in conflict: ${conflicts.join(', ')}`);
  console.log('(undone)\n');
  await run('git status --short workers && git log --oneline -1');
} catch (error) {
  console.error(log);
  throw error;
} finally {
  daemon.kill('SIGTERM');
  await daemon;
  rmSync(place, { recursive: true, force: true });
}
console.log('The daemon, its hosts and all files of this demo are gone.');
