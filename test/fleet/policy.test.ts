/** A policy that the operator requires: who gets it, what is refused in its place, and that such a node takes no sessions. */
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { replaceFile } from '../../src/base/disk.ts';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { createClient } from '../../src/client/client.ts';
import { fleetFiles, readFleet } from '../../src/fleet/folder.ts';
import { createOperatorKeys } from '../../src/fleet/signing.ts';
import { bundleOf, type PolicyBundle, signBundle, toText } from '../../src/policy/bundle/bundle.ts';
import { removeTree, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { noBus, TestFleet } from '../support/fleet.ts';

/** A policy that denies the reading of one file. */
const denying = (name: string) => `version: 1
rules:
  - { id: no-${name}, match: { read: "${name}" }, decision: deny, reason: Test. }
`;

interface NodeLine {
  readonly name: string;
  readonly obstacle?: string;
}

describe.skipIf(noBus !== undefined)(`a policy that the operator requires${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let own: TestDaemon;
  let socket: string;
  let folder: string;
  beforeAll(async () => {
    folder = temporaryDir('policies');
    fleet = await TestFleet.start();
    a = await fleet.node('node-a', { args: ['--policy', 'fleet'] });
    own = await fleet.node('node-own');
    socket = await fleet.gateway();
  }, 240_000);
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    removeTree(folder);
  });

  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const obstacles = async () =>
    Object.fromEntries((await fleet.json<NodeLine[]>('nodes')).map((it) => [it.name, it.obstacle]));
  /** What became of a session on a node: its daemon's answer to a read, or the refusal. */
  const reading = async (daemon: TestDaemon, name: string, path: string): Promise<string> => {
    writeFileSync(join(daemon.workspace, path), 'text');
    try {
      await using client = await createClient({ socket, workspace: `${name}:${daemon.workspace}` });
      const { success, error } = (await client.call('file_read', { path })) as {
        success: boolean;
        error?: { code: string };
      };
      return success ? 'read' : (error?.code ?? '');
    } catch (error) {
      return (error as Error).message;
    }
  };
  const require = async (path: string): Promise<void> => {
    const set = await fleet.cli('policy', '--bundle', path);
    expect(set.code, set.stderr).toBe(0);
  };
  const handedOut = (): PolicyBundle =>
    JSON.parse(readFileSync(fleetFiles(fleet.folder).hubPolicy, 'utf8')) as PolicyBundle;
  const handOut = (bundle: PolicyBundle): void => replaceFile(fleetFiles(fleet.folder).hubPolicy, toText(bundle));

  test('a node that runs with --policy fleet takes no sessions before the policy has come, and denies everything', async () => {
    await expect.poll(obstacles).toMatchObject({ 'node-a': "does not have the operator's policy yet" });
    await expect.poll(() => reading(a, 'node-a', 'one')).toContain("does not have the operator's policy yet");
    await using client = await a.connect();
    expect(await client.call('file_list', {})).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    await expect.poll(() => reading(own, 'node-own', 'one')).toBe('read');
  });

  test('nodes get the policy that the operator signs, and one with a policy of its own takes no sessions', async () => {
    await require(file('one.yaml', denying('one')));
    await expect.poll(obstacles).toEqual({
      'node-a': undefined,
      'node-own': expect.stringContaining('start its daemon with --policy fleet'),
    });
    await expect.poll(() => reading(a, 'node-a', 'one')).toBe('POLICY_DENIED');
    expect(await reading(a, 'node-a', 'other')).toBe('read');
    expect(await reading(own, 'node-own', 'other')).toContain('follows a policy of its own');
    expect((await fleet.cli('nodes')).stdout).toContain('node-own  takes no sessions: follows a policy of its own');
  });

  test('a bundle without the signature of the operator is refused, whoever hands it out', async () => {
    const stranger = createOperatorKeys().privateKey;
    const tampered: [(signed: PolicyBundle, unsigned: PolicyBundle) => PolicyBundle, string][] = [
      [(_, unsigned) => unsigned, 'has no signature of the key'],
      [(_, unsigned) => signBundle(unsigned, stranger), 'has no signature of the key'],
      [
        ({ signatures: [of] }, unsigned) => signedAs(of?.key, signBundle(unsigned, stranger)),
        'does not fit the digest',
      ],
      [() => bundleOf('x.yaml', new Map([['x.yaml', denying('x')]])), 'and the roster requires'],
      [(signed) => ({ ...signed, files: { 'two.yaml': denying('x') } }), 'was changed'],
    ];
    for (const [at, [tamper, why]] of tampered.entries()) {
      // The node must not get the right one before.
      await fleet.stopHub();
      await require(file('two.yaml', denying('two') + '#'.repeat(at)));
      const signed = handedOut();
      handOut(tamper(signed, { ...signed, signatures: [] }));
      await fleet.startHub();
      await expect.poll(obstacles).toMatchObject({ 'node-a': expect.stringContaining(why) });
      expect(await reading(a, 'node-a', 'other')).toContain(why);
      if (at === tampered.length - 1) handOut(signed);
    }
    await expect.poll(obstacles).toMatchObject({ 'node-a': undefined });
    await expect.poll(() => reading(a, 'node-a', 'two')).toBe('POLICY_DENIED');
  }, 240_000);

  test('an older roster with an older policy does not bring that policy back', async () => {
    const { hubRoster, hubPolicy } = fleetFiles(fleet.folder);
    const old = { roster: join(folder, 'roster.json'), policy: join(folder, 'policy.json') };
    copyFileSync(hubRoster, old.roster);
    copyFileSync(hubPolicy, old.policy);
    await require(file('three.yaml', denying('three')));
    await expect.poll(() => reading(a, 'node-a', 'three')).toBe('POLICY_DENIED');
    // The machine of the hub is taken over: it goes back to what the operator signed before.
    await fleet.stopHub();
    copyFileSync(old.roster, hubRoster);
    copyFileSync(old.policy, hubPolicy);
    await fleet.startHub();
    await a[Symbol.asyncDispose]();
    a = await fleet.node('node-a', { stateDir: a.stateDir, args: ['--policy', 'fleet'] });
    await expect.poll(obstacles).toMatchObject({ 'node-a': undefined });
    await expect.poll(() => reading(a, 'node-a', 'three')).toBe('POLICY_DENIED');
    const required = JSON.parse(readFileSync(join(a.stateDir, 'fleet/policy/required.json'), 'utf8')) as object;
    expect(required).toEqual(readFleet(fleet.folder, limits).roster.bundle);
    copyFileSync(fleetFiles(fleet.folder).roster, hubRoster);
  });

  test('a node whose policy was changed on its machine takes no sessions until its own is back', async () => {
    const installed = join(a.stateDir, 'fleet/policy');
    const [name = ''] = readdirSync(installed).filter((it) => isInForce(installed, it));
    writeFileSync(join(installed, name, 'three.yaml'), denying('nothing'));
    await expect.poll(obstacles).toMatchObject({ 'node-a': expect.stringContaining('its files were changed') });
    expect(await reading(a, 'node-a', 'three')).toContain('its files were changed');
    await a[Symbol.asyncDispose]();
    a = await fleet.node('node-a', { stateDir: a.stateDir, args: ['--policy', 'fleet'] });
    await expect.poll(obstacles).toMatchObject({ 'node-a': undefined });
    await expect.poll(() => reading(a, 'node-a', 'three')).toBe('POLICY_DENIED');
  });

  test('a policy that is not valid is not signed, and without one any policy will do again', async () => {
    const bad = await fleet.cli('policy', '--bundle', file('bad.yaml', 'version: 1\nrules: 7\n'));
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('rules')]);
    const large = file('large.yaml', `${denying('x')}# ${'x'.repeat(limits.fleetMessageBytesMax)}\n`);
    const refused = await fleet.cli('policy', '--bundle', large);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('bytes')]);
    expect((await fleet.cli('policy', '--bundle', 'strict')).stderr).toContain('built-in');
    expect((await fleet.cli('policy')).code).toBe(0);
    await expect.poll(obstacles).toEqual({ 'node-a': undefined, 'node-own': undefined });
    await expect.poll(() => reading(own, 'node-own', 'other')).toBe('read');
    // What it has is the operator's still.
    expect(await reading(a, 'node-a', 'three')).toBe('POLICY_DENIED');
  });
});

const isInForce = (folder: string, name: string): boolean =>
  readFileSync(join(folder, 'policy.yaml'), 'utf8').includes(`/${name}/`);

/** A bundle whose signature claims to be of another key. */
const signedAs = (key = '', bundle: PolicyBundle): PolicyBundle => ({
  ...bundle,
  signatures: bundle.signatures.map((it) => ({ ...it, key })),
});
