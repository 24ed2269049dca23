/** What a call that reaches a server by ssh may ask the gateway to start. */
import { describe, expect, test } from 'vitest';
import { reachableForms, remotesOf } from '../../../src/pipeline/execute/keys/remotes.ts';
import type { CheckedCall, ClearedCall } from '../../../src/pipeline/stage.ts';
import type { SshServer } from '../../../src/tools/context/ssh-server.ts';
import gitFetch from '../../../src/tools/git/fetch.ts';
import gitPush from '../../../src/tools/git/push.ts';

const URL_BY_SSH = 'git@git.example:team/x.git';
const URL_BY_HTTPS = 'https://git.example/team/x.git';

function callOf(tool: object, url = URL_BY_SSH, target = 'git.example:22') {
  return { checked: { tool, input: { url }, effects: [{ kind: 'connect', target }] } } as unknown as ClearedCall;
}

/** A person whose ssh is started for nobody; notes what would have been. */
function keysOf({ hasKey = true, isKnown = true, headers = undefined as Record<string, string> | undefined } = {}) {
  const started: [SshServer, string][] = [];
  const ends: AbortSignal[] = [];
  const ssh = {
    hasKey: async () => hasKey,
    knows: async () => isKnown,
    assertReachable: async () => {},
    start(server: SshServer, program: string, until: AbortSignal) {
      started.push([server, program]);
      ends.push(until);
      return `token ${started.length}`;
    },
  };
  return { keys: { headersFor: async () => headers, ofCommands: undefined, ssh }, started, ends };
}

const asking = (host: string, kind: 'program' | 'host' = 'program') => ({ kind, host, port: 1, sent: 0 });

describe('the door of a call by ssh', () => {
  test('the door opens to the programs of the tool, on the server of the call alone', async () => {
    const { keys, started } = keysOf();
    const { door, network } = (await remotesOf(callOf(gitFetch), keys)) ?? {};
    expect(network).toEqual([[]]);
    expect(await door?.answer(asking('git-upload-pack'))).toEqual({ program: 'token 1' });
    for (const it of ['git-receive-pack', 'sign', 'sh'])
      expect(await door?.answer(asking(it))).toMatchObject({ refused: expect.any(String) });
    expect(await door?.answer(asking('git.example', 'host'))).toMatchObject({ refused: expect.any(String) });
    expect(started).toEqual([[{ user: 'git', host: 'git.example', port: 22, path: 'team/x.git' }, 'git-upload-pack']]);
    const pushing = (await remotesOf(callOf(gitPush), keys))?.door;
    expect(await pushing?.answer(asking('git-receive-pack'))).toEqual({ program: 'token 2' });
  });

  test('a call starts ssh a few times at most, and all of them end with it', async () => {
    const { keys, ends } = keysOf();
    const { door } = (await remotesOf(callOf(gitFetch), keys)) ?? {};
    const answers: unknown[] = [];
    for (let count = 0; count < 9; count++) answers.push(await door?.answer(asking('git-upload-pack')));
    expect(answers.filter((it) => Object.hasOwn(it as object, 'refused'))).toHaveLength(5);
    door?.sent({ connected: [], denied: [], sent: [] });
    expect(ends.map((it) => it.aborted)).toEqual([true, true, true, true]);
  });

  test('a server that the policy has not judged is not reached', async () => {
    const { keys } = keysOf();
    await expect(remotesOf(callOf(gitFetch, URL_BY_SSH, 'other.example:22'), keys)).rejects.toThrow('does not declare');
  });

  test.each([
    ['whose agent holds a key', {}, URL_BY_SSH],
    ['whose agent holds none', { hasKey: false }, URL_BY_HTTPS],
    ['who knows no such host', { isKnown: false }, URL_BY_SSH],
    ['who knows no such host, and has a token', { isKnown: false, headers: { authorization: 'x' } }, URL_BY_HTTPS],
    ['who has a token, too', { headers: { authorization: 'x' } }, URL_BY_SSH],
    ['whose policy denies ssh', { denies: true }, URL_BY_HTTPS],
  ])('a call of a person %s reaches one server', async (_, { denies = false, ...given }: Person, url) => {
    const forms = [URL_BY_SSH, URL_BY_HTTPS].map((it) => callOf(gitFetch, it) as CheckedCall);
    const isDenied = (it: CheckedCall) => denies && (it.checked.input as { url: string }).url === URL_BY_SSH;
    const left = await reachableForms(forms, keysOf(given).keys, isDenied);
    expect(left.map((it) => it.checked.input)).toEqual([{ url }]);
  });
});

type Person = NonNullable<Parameters<typeof keysOf>[0]> & { readonly denies?: boolean };
