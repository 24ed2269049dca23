/** The HOME kept between commands: nothing may leave it, and nothing may pile up in it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { dataOf, startDaemon, temporaryDir, until } from '../support/daemon.ts';

const MiB = 1024 * 1024;

const run = (client: Client, command: string): Promise<{ stdout: string; exitCode: number }> =>
  dataOf(client.call('terminal_execute', { command, timeout: 60_000 }) as never);

test('a command that fills its home without end is ended, with FILE_LIMIT, and the disk has its room back', async () => {
  await using daemon = await startDaemon({ limits: { homeBytesMax: 64 * MiB } });
  await using client = await daemon.connect();
  const result = await client.call('terminal_execute', {
    command: 'while :; do head -c 8M /dev/urandom > ~/$RANDOM$RANDOM; sleep 0.05; done',
    timeout: 60_000,
  });
  expect(result).toMatchObject({
    success: false,
    error: { code: 'FILE_LIMIT' },
    metadata: { resources: { verdict: 'file' } },
  });
  const homes = join(daemon.stateDir, 'homes');
  // It complains about what goes while it counts.
  const sizeMiB = () => Number(spawnSync('/usr/bin/du', ['-sm', homes], { encoding: 'utf8' }).stdout.split('\t')[0]);
  await until(() => sizeMiB() < 64);
  expect((await run(client, 'echo works')).stdout).toBe('works\n');
});

test('a million empty files fill no table of the disk', async () => {
  await using daemon = await startDaemon({ limits: { homeEntriesMax: 2_000 } });
  await using client = await daemon.connect();
  const result = await client.call('terminal_execute', {
    command: 'i=0; while :; do mkdir -p ~/d$i; touch ~/d$i/{1..500}; i=$((i+1)); done',
    timeout: 60_000,
  });
  expect(result).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
});

test('settings that a session leaves in its home name no program to a later one', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  await run(
    client,
    `git init -q . && printf '#!/bin/sh\\ntouch ran\\n' > ~/evil && chmod +x ~/evil &&
     printf '[core]\\nfsmonitor = ~/evil\\n' > .planted && for it in .gitconfig .config/git/config; do mkdir -p $(dirname ~/$it); cp .planted ~/$it; done;
     npm config set script-shell ~/evil; cat ~/ev* > /dev/null; for it in rc; do echo "script-shell=$HOME/evil" > ~/.npm$it; done`,
  );
  await using later = await daemon.connect();
  await run(later, `echo '{"scripts":{"hello":"echo hello"}}' > package.json; git status; npm run hello`);
  expect(existsSync(join(daemon.workspace, 'ran'))).toBe(false);
  // Without the variables, the files left there take effect.
  await run(later, 'unset GIT_CONFIG_GLOBAL XDG_CONFIG_HOME npm_config_userconfig; git status; npm run hello');
  expect(existsSync(join(daemon.workspace, 'ran'))).toBe(true);
});

test('links in a home lead to nothing outside of the sandbox, when it is measured and when it is emptied', async () => {
  const outside = temporaryDir('outside');
  writeFileSync(join(outside, 'victim'), 'x'.repeat(1024));
  await using daemon = await startDaemon({ limits: { homeBytesMax: 32 * MiB } });
  await using client = await daemon.connect();
  await run(
    client,
    `mkdir -p ~/.cache/a && ln -s ${outside} ~/.cache/a/out && ln -s / ~/root && head -c 20M /dev/urandom > ~/.cache/a/it`,
  );
  await until(async () => (await run(client, 'ls ~/.cache')).stdout === '');
  expect(readdirSync(outside)).toEqual(['victim']);
});

test('a home that is made a link by hand is not followed', { timeout: 60_000 }, async () => {
  const outside = temporaryDir('outside');
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    await run(client, 'true');
  }
  mkdirSync(join(stateDir, 'homes'), { recursive: true });
  for (const name of readdirSync(join(stateDir, 'homes'))) {
    execFileSync('rm', ['-r', join(stateDir, 'homes', name)]);
    symlinkSync(outside, join(stateDir, 'homes', name));
  }
  await using daemon = await startDaemon({ stateDir, workspace });
  await using client = await daemon.connect();
  await client.call('terminal_execute', { command: 'touch ~/planted' });
  expect(readdirSync(outside)).toEqual([]);
});

test('a folder that a command closed counts all the same', async () => {
  await using daemon = await startDaemon({ limits: { homeBytesMax: 64 * MiB } });
  await using client = await daemon.connect();
  const result = await client.call('terminal_execute', {
    command: 'mkdir ~/closed && head -c 100M /dev/urandom > ~/closed/it && chmod 000 ~/closed; sleep 50',
    timeout: 60_000,
  });
  expect(result).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
});

test('a file that Python runs at its start, left in the home of one session, runs in none with other authority', {
  timeout: 120_000,
}, async () => {
  const files = temporaryDir('policies');
  const narrow = join(files, 'narrow.yaml');
  writeFileSync(narrow, 'extends: default\ntiers:\n  execute: { cpuMs: 60000 }\n');
  await using daemon = await startDaemon({
    config: { principals: { other: {}, held: { policy: narrow } }, modes: { narrow: { policy: narrow } } },
  });
  const { socket, workspace, stateDir } = daemon;
  const tokenOf = (name: string) => readFileSync(join(stateDir, 'tokens', `${name}.token`), 'utf8').trim();
  await using agent = await daemon.connect();
  const { token } = (await agent.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
  await using again = await daemon.connect();
  await using passedOn = await createClient({ socket, workspace, token });
  await using other = await createClient({ socket, workspace, token: tokenOf('other') });
  await using held = await createClient({ socket, workspace, token: tokenOf('held') });
  await using inMode = await daemon.connect({ mode: 'narrow' });
  await using operator = await daemon.connect({ role: 'operator' });
  const sessions = { agent, passedOn, other, held, inMode, operator };
  for (const [name, client] of Object.entries(sessions)) {
    const folder = '$(python3 -m site --user-site)';
    await run(
      client,
      `mkdir -p ${folder} && echo "import os; os.system('echo ${name} >> ${workspace}/ran')" > ${folder}/planted.pth`,
    );
  }
  const ranIn = async (client: Client) => {
    writeFileSync(join(workspace, 'ran'), '');
    await run(client, 'python3 -c pass');
    return readFileSync(join(workspace, 'ran'), 'utf8').trim();
  };
  for (const [name, client] of Object.entries(sessions)) expect(await ranIn(client)).toBe(name);
  expect(await ranIn(again)).toBe('agent');
});

test('a home stays when the text of a policy changes', { timeout: 60_000 }, async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  await run(client, 'echo kept > ~/cache');
  writeFileSync(join(daemon.stateDir, 'policy.yaml'), '# Another text.\nrateLimits: []\n');
  await using operator = await daemon.connect({ role: 'operator' });
  await operator.request('policy.reload', {});
  expect((await run(client, 'cat ~/cache')).stdout).toBe('kept\n');
});
