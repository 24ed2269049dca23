import { expect, test } from 'vitest';
import { ToolError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { succeeded } from '../../../src/pipeline/outcome.ts';
import { redactOutput, sanitize } from '../../../src/pipeline/sanitize.ts';
import type { Call, ClearedCall, Handler } from '../../../src/pipeline/stage.ts';

// Split, so that secret scanners do not find it here.
const token = ['ghp', '0123456789abcdefghijABCDEFGHIJ987654'].join('_');
const HIDDEN = '[redacted:github-token]';

/** Runs a call through the stage; gives its result, the call, and its output. */
async function run(inner: (call: ClearedCall) => Promise<unknown>, limits = defaultLimits) {
  let output = '';
  const write: Call['output'] = (stream, data) => {
    output += `${stream}:${Buffer.from(data).toString()};`;
  };
  const call = { output: write, checked: { tier: 'execute' } } as ClearedCall;
  const handler: Handler<ClearedCall> = async (it) => succeeded(await inner(it));
  const outcome = await sanitize(limits, systemPowers())(handler)(call);
  return { result: outcome.error ?? outcome.data, outcome, restored: call.output === write, output: () => output };
}

test('a result without secrets passes as it is, with what it takes', async () => {
  const data = { content: 'é', lines: [1] };
  const { result, outcome } = await run(async () => data);
  expect(result).toBe(data);
  expect(outcome.heldBytes).toBe(185 + 7 + (16 + 1) + 5 + (33 + 8 + 16));
});

test('secrets in a result are hidden and counted, and what stands under the name of one is data', async () => {
  const { result, outcome } = await run(async () => ({
    stdout: `a ${token}\n${token}`,
    password: 'short',
    exitCode: 0,
  }));
  expect(result).toEqual({ stdout: `a ${HIDDEN}\n${HIDDEN}`, password: 'short', exitCode: 0 });
  expect(outcome.redactions).toBe(2);
});

test('the content of a binary file is left, and nothing else of its result', async () => {
  const content = Buffer.from(`binary ${token}`).toString('base64');
  const { result } = await run(async () => ({ encoding: 'base64', content, path: token }));
  expect(result).toEqual({ encoding: 'base64', content, path: HIDDEN });
});

test('a result over the bound is OUTPUT_LIMIT, also one that grew over it by what was put in for secrets', async () => {
  const limits = { ...defaultLimits, resultBytesMax: 100 };
  expect((await run(async () => 'x'.repeat(101), limits)).result).toMatchObject({ code: 'OUTPUT_LIMIT' });
  expect((await run(async () => 'x'.repeat(100), limits)).result).toBe('x'.repeat(100));
  const passwords = 'password=a1b2c3d4\n'.repeat(5);
  expect((await run(async () => passwords, limits)).result).toMatchObject({ code: 'OUTPUT_LIMIT' });
});

test('an error loses its secrets and nothing else', async () => {
  const cause = new Error('inside');
  const error = new ToolError('TIMEOUT', `\`curl ${token}\` ran too long`, {
    suggestion: `not ${token}`,
    details: { stdout: token, limit: 5 },
    layer: 'limit',
    cause,
  });
  const { result, outcome } = await run(() => Promise.reject(error));
  expect((result as ToolError).toWire()).toMatchObject({
    code: 'TIMEOUT',
    layer: 'limit',
    recoverable: true,
    message: `\`curl ${HIDDEN}\` ran too long`,
    suggestion: `not ${HIDDEN}`,
    details: { stdout: HIDDEN, limit: 5 },
  });
  expect((result as ToolError).cause).toBe(cause);
  expect(outcome.redactions).toBe(3);
});

test('an error without secrets passes as it is, and one of ours is INTERNAL with its cause', async () => {
  const error = new ToolError('NOT_FOUND', 'no such file');
  expect((await run(() => Promise.reject(error))).result).toBe(error);
  const fault = new Error('a fault of ours');
  const { result } = await run(() => Promise.reject(fault));
  expect(result).toMatchObject({ code: 'INTERNAL' });
  expect((result as ToolError).cause).toBe(fault);
});

test('output has its secrets hidden wherever it is cut, each stream for itself, and is complete before the result', async () => {
  const { output, restored } = await run(async (call) => {
    for (const char of `a ${token}`) {
      void call.output('stdout', Buffer.from(char));
      void call.output('stderr', Buffer.from('.'));
    }
    return null;
  });
  const shown = output();
  const of = (stream: string) =>
    shown
      .split(';')
      .filter((it) => it.startsWith(stream))
      .map((it) => it.slice(stream.length + 1))
      .join('');
  expect(of('stdout')).toBe(`a ${HIDDEN}`);
  expect(of('stderr')).toBe('.'.repeat(token.length + 2));
  expect(restored).toBe(true);
});

test('output of a call that fails is complete, too', async () => {
  const { output } = await run((call) => {
    void call.output('stdout', Buffer.from('token'));
    return Promise.reject(new ToolError('TIMEOUT', 'too long'));
  });
  expect(output()).toBe('stdout:token;');
});

test('an unfinished line is given when nothing ended it for a while, half a token is not, and nothing comes after the end', () => {
  const given: string[] = [];
  let waiting: (() => void) | undefined;
  const after = (_: number, fn: () => void) => {
    waiting = fn;
    return {
      cancel: () => {
        waiting = undefined;
      },
    };
  };
  const redacted = redactOutput((stream, data) => void given.push(`${stream} ${Buffer.from(data).toString()}`), {
    after,
  });
  void redacted.output('stdout', Buffer.from('whole\n'));
  expect(waiting).toBeUndefined();
  void redacted.output('stderr', Buffer.from('Password: '));
  void redacted.output('stdout', Buffer.from(token.slice(0, 20)));
  expect(given.splice(0)).toEqual(['stdout whole\n']);
  waiting?.();
  expect(given.splice(0)).toEqual(['stderr Password: ']);
  void redacted.output('stdout', Buffer.from(`${token.slice(20)}\nPassword: `));
  expect(given.splice(0)).toEqual([`stdout ${HIDDEN}\n`]);
  redacted.end();
  expect([waiting, given.splice(0)]).toEqual([undefined, ['stdout Password: ']]);
  void redacted.output('stdout', Buffer.from('late'));
  expect(given).toEqual([]);
});
