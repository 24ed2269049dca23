/** What a person's yes to an installation is bound to: attempts to have another plan installed than the one that was shown. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client, RunningCall } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { type FakeRegistry, startRegistry } from '../support/npm-registry.ts';
import { hasPip, startIndex } from '../support/python-index.ts';
import { addToolchain } from '../support/toolchains.ts';

const MS = 120_000;

let registry: FakeRegistry;
let daemon: TestDaemon;
let agent: Client;
let operator: Client;

const at = (path: string) => join(daemon.workspace, path);
const read = (path: string) => readFileSync(at(path), 'utf8');
const install = (input: object) => agent.call('package_install', input as never) as RunningCall<unknown>;
const answer = (approvalId: string, decision: 'approve' | 'deny', more: object = {}) =>
  operator.request('approvals.resolve', { approvalId, decision, ...more });

/** The question about a call; throws if the call ends without one. */
async function asked(call: RunningCall<unknown>): Promise<Approval> {
  let found: Approval | undefined;
  let ended: unknown;
  void call.then((it) => (ended = it));
  await until(async () => {
    if (ended !== undefined) throw new Error(`ended unasked: ${JSON.stringify(ended)}`);
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    found = approvals.find((it) => it.callId === call.callId);
    return found !== undefined;
  }, 60_000);
  return found as Approval;
}

describe.skipIf(!findProgram('npm'))('package_install', () => {
  beforeAll(async () => {
    registry = await startRegistry();
    daemon = await startDaemon({
      policy: `tiers:\n  execute: { decision: ask, network: { allow: ["${registry.host}"] } }\n`,
      config: { packages: { registry: registry.url } },
    });
    agent = await daemon.connect();
    operator = await daemon.connect({ role: 'operator' });
  }, MS);
  afterAll(async () => {
    await agent[Symbol.asyncDispose]();
    await operator[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    writeFileSync(at('package.json'), '{"name":"project"}');
    registry.publish('wanted', { version: '1.0.0', ageDays: 60, manifest: { dependencies: { below: '^1.0.0' } } });
    registry.publish('below', { version: '1.0.0', ageDays: 60, manifest: { scripts: { install: 'touch canary' } } });
    registry.seen.length = 0;
  });
  const isUntouched = () =>
    !existsSync(at('node_modules')) && !existsSync(at('package-lock.json')) && !read('package.json').includes('wanted');

  test('the person sees the difference of the lockfile before anything is installed; a no leaves all as it was', {
    timeout: MS,
  }, async () => {
    // Asked for otherwise than below: a call that was just denied is denied again unasked.
    const call = install({ packages: [{ name: 'wanted', version: '^1.0.0' }] });
    const question = await asked(call);
    expect(isUntouched()).toBe(true);
    expect(registry.seen.filter((it) => it.endsWith('.tgz'))).toEqual([]);
    expect(question.diff).toMatch(/^\+ below 1\.0\.0 \(published .*, has an install script, which does not run\)$/m);
    expect(question.diff).toMatch(/^\+ wanted 1\.0\.0 \(direct, published \d{4}-\d\d-\d\d\)$/m);
    expect(question.diff).toContain('"wanted":"^1.0.0"');
    await answer(question.approvalId, 'deny');
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    expect(isUntouched()).toBe(true);
  });

  test('the installed plan is the one that was shown, though the registry has a newer version by then', {
    timeout: MS,
  }, async () => {
    const call = install({ packages: [{ name: 'wanted' }] });
    const question = await asked(call);
    registry.publish('below', { version: '1.5.0', ageDays: 60 });
    await answer(question.approvalId, 'approve');
    const result = (await call) as { data: { lockfileHash: string; added: object[] } };
    expect(question.diff).toContain(result.data.lockfileHash);
    expect(result.data.added).toMatchObject([{ version: '1.0.0' }, { version: '1.0.0' }]);
    expect(JSON.parse(read('node_modules/below/package.json'))).toMatchObject({ version: '1.0.0' });
    expect(existsSync(at('node_modules/below/canary')) || existsSync(at('canary'))).toBe(false);
  });

  test('content that the registry swaps after the yes is not installed', { timeout: MS }, async () => {
    registry.publish('swapped', { version: '1.0.0', ageDays: 60 });
    const call = install({ packages: [{ name: 'swapped' }] });
    const question = await asked(call);
    registry.publish('swapped', { version: '1.0.0', ageDays: 60, files: { 'evil.js': 'evil' } });
    await answer(question.approvalId, 'approve');
    expect(await call).toMatchObject({ success: false, error: { code: 'CODE_ERROR' } });
    expect(existsSync(at('node_modules/swapped/evil.js'))).toBe(false);
    expect(read('package.json')).toBe('{"name":"project"}');
    expect(existsSync(at('package-lock.json'))).toBe(false);
  });

  test.each([
    ['package.json', '{"name":"project","dependencies":{"other":"1.0.0"}}'],
    ['package-lock.json', '{"lockfileVersion":3,"packages":{}}'],
    ['.npmrc', 'ignore-scripts=false\nscript-shell=./evil.sh\n'],
  ])('%s that changes after the question makes the yes void', { timeout: MS }, async (file, text) => {
    const call = install({ packages: [{ name: 'wanted' }] });
    const question = await asked(call);
    writeFileSync(at(file), text);
    await answer(question.approvalId, 'approve');
    const result = (await call) as { success: boolean; error: { code: string } };
    expect(['CONFLICT', 'APPROVAL_STALE']).toContain(result.error?.code);
    expect(read(file)).toBe(text);
    expect(existsSync(at('node_modules'))).toBe(false);
  });

  test('a yes is remembered for no other plan', { timeout: MS }, async () => {
    const first = install({ packages: [{ name: 'wanted' }] });
    await answer((await asked(first)).approvalId, 'approve', { remember: { scope: 'session', match: 'exact' } });
    expect(await first).toMatchObject({ success: true });
    rmSync(at('node_modules'), { recursive: true });
    const second = install({ packages: [{ name: 'wanted' }] });
    await answer((await asked(second)).approvalId, 'deny');
    expect(await second).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    expect(existsSync(at('node_modules'))).toBe(false);
  });

  test('the scripts of one package run with a yes of their own, without network, and no others', {
    timeout: MS,
  }, async () => {
    const script = `echo ran > "$INIT_CWD/canary-$npm_package_name"; node -e 'require("http").get("http://127.0.0.1:3128").on("error", (it) => console.log("offline", it.code))'`;
    for (const name of ['needed', 'other'])
      registry.publish(name, { version: '1.0.0', ageDays: 60, manifest: { scripts: { postinstall: script } } });
    const packages = [{ name: 'needed' }, { name: 'other' }];
    expect(await install({ packages, allowScripts: ['needed', 'other'] })).toMatchObject({
      error: { code: 'INPUT_INVALID' },
    });
    const call = install({ packages, allowScripts: ['needed'] });
    const question = await asked(call);
    expect(question.diff).toMatch(/^! the install scripts of needed run, without network$/m);
    expect(question.diff).toMatch(/^\+ other 1\.0\.0 \(.*has an install script, which does not run\)$/m);
    await answer(question.approvalId, 'approve');
    expect(await call).toMatchObject({
      success: true,
      data: {
        scriptsSkipped: ['other@1.0.0'],
        scriptsRun: [{ script: `postinstall: ${script}`, exitCode: 0, output: 'offline ECONNREFUSED\n' }],
      },
    });
    expect(readdirSync(daemon.workspace).filter((it) => it.startsWith('canary'))).toEqual(['canary-needed']);
  });

  test('a finding that is accepted by name is asked about, whatever the policy says', { timeout: MS }, async () => {
    registry.publish('young', { version: '1.0.0', ageDays: 1 });
    writeFileSync(
      join(daemon.stateDir, 'policy.yaml'),
      `tiers:\n  execute: { network: { allow: ["${registry.host}"] } }\n`,
    );
    const input = { packages: [{ name: 'young' }], accept: ['fresh:young@1.0.0'] };
    let call = install(input);
    const question = await asked(call);
    expect(question.diff).toMatch(/^\+ young 1\.0\.0/m);
    await answer(question.approvalId, 'approve');
    expect(await call).toMatchObject({ success: true, data: { added: [{ name: 'young' }] } });
    // A yes to one young version is none to another.
    registry.publish('young', { version: '1.0.1', ageDays: 1 });
    call = install({ ...input, packages: [{ name: 'young', version: '1.0.1' }] });
    expect(await call).toMatchObject({
      error: { code: 'POLICY_DENIED', details: { findings: [{ id: 'fresh:young@1.0.1' }] } },
    });
  });
});

describe
  .skipIf(!findProgram('node'))
  .each([['pnpm', 'pnpm-lock.yaml', 'pnpm-workspace.yaml', 'pnpmfile: ./evil.cjs\n']] as const)(
  'package_install by %s',
  (manager, lockfile, settings, evil) => {
    test('installs what was shown, and nothing once the project has changed', { timeout: MS * 2 }, async () => {
      const stateDir = temporaryDir('state');
      await addToolchain(stateDir, manager);
      registry = await startRegistry();
      daemon = await startDaemon({
        stateDir,
        policy: `tiers:\n  execute: { decision: ask, network: { allow: ["${registry.host}"] } }\n`,
        config: { packages: { registry: registry.url } },
      });
      agent = await daemon.connect();
      operator = await daemon.connect({ role: 'operator' });
      try {
        registry.publish('wanted', { version: '1.0.0', ageDays: 60, manifest: { dependencies: { below: '^1.0.0' } } });
        registry.publish('below', {
          version: '1.0.0',
          ageDays: 60,
          manifest: { scripts: { install: 'touch canary' } },
        });
        const write = (name: string, text: string) => writeFileSync(at(name), text);
        const plain = '';
        write('package.json', '{"name":"project"}');
        for (const [name, text] of [
          ['package.json', '{"name":"project","dependencies":{"other":"1.0.0"}}'],
          [lockfile, '# other\n'],
          [settings, evil],
        ] as const) {
          write(settings, plain);
          const call = install({ manager, packages: [{ name: 'wanted', version: `<${10 + name.length}` }] });
          const question = await asked(call);
          expect(question.diff).toMatch(
            /^\+ below 1\.0\.0 \(published .*, has an install script, which does not run\)$/m,
          );
          write(name, text);
          await answer(question.approvalId, 'approve');
          const result = (await call) as unknown as { error: { code: string } };
          expect(['CONFLICT', 'APPROVAL_STALE']).toContain(result.error?.code);
          expect(existsSync(at('node_modules'))).toBe(false);
          write('package.json', '{"name":"project"}');
          rmSync(at(lockfile), { force: true });
        }
        write(settings, plain);
        const call = install({ manager, packages: [{ name: 'wanted' }] });
        const question = await asked(call);
        registry.publish('below', { version: '1.5.0', ageDays: 60 });
        await answer(question.approvalId, 'approve');
        const { data } = (await call) as { data: { lockfileHash: string } };
        expect(question.diff).toContain(data.lockfileHash);
        expect(read(lockfile)).toContain('below@');
        expect(read(lockfile)).not.toContain('1.5.0');
        expect(existsSync(at('canary')) || existsSync(at('node_modules/below/canary'))).toBe(false);
        const allowed = install({ manager, allowScripts: ['below'] });
        await answer((await asked(allowed)).approvalId, 'approve');
        expect(await allowed).toMatchObject({
          data: { scriptsRun: [{ script: 'install: touch canary', exitCode: 0 }] },
        });
      } finally {
        await agent[Symbol.asyncDispose]();
        await operator[Symbol.asyncDispose]();
        await daemon[Symbol.asyncDispose]();
        await registry[Symbol.asyncDispose]();
        rmSync(stateDir, { recursive: true, force: true });
      }
    });
  },
);

describe.skipIf(!hasPip())('package_install by pip', () => {
  test('installs what was shown, and nothing once the project has changed', { timeout: MS }, async () => {
    await using index = await startIndex();
    index.publish('wanted', { version: '1.0.0', ageDays: 60 });
    daemon = await startDaemon({
      policy: `tiers:\n  execute: { decision: ask, network: { allow: ["${index.host}"] } }\n`,
      config: { packages: { pythonIndex: index.url } },
    });
    agent = await daemon.connect();
    operator = await daemon.connect({ role: 'operator' });
    try {
      for (const name of ['requirements.txt', 'requirements.lock']) {
        const call = install({ manager: 'pip', packages: [{ name: 'wanted', version: `<${10 + name.length}` }] });
        const question = await asked(call);
        expect(question.diff).toMatch(/^\+ wanted 1\.0\.0 \(direct, published .*\)$/m);
        writeFileSync(at(name), 'other\n');
        await answer(question.approvalId, 'approve');
        const result = (await call) as unknown as { error: { code: string } };
        expect(['CONFLICT', 'APPROVAL_STALE']).toContain(result.error?.code);
        expect(readdirSync(daemon.workspace)).toEqual([name]);
        rmSync(at(name));
      }
      const call = install({ manager: 'pip', packages: [{ name: 'wanted' }] });
      const question = await asked(call);
      index.publish('wanted', { version: '1.0.0', ageDays: 60, files: { 'wanted/evil.py': '' } });
      await answer(question.approvalId, 'approve');
      expect(await call).toMatchObject({ success: false, error: { code: 'CODE_ERROR' } });
      expect(existsSync(at('requirements.txt')) || existsSync(at('requirements.lock'))).toBe(false);
      expect(existsSync(at('.venv'))).toBe(false);
    } finally {
      await agent[Symbol.asyncDispose]();
      await operator[Symbol.asyncDispose]();
      await daemon[Symbol.asyncDispose]();
    }
  });
});
