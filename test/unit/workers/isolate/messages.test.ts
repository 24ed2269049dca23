import { expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import type { LogLine } from '../../../../src/hosts/job.ts';
import { IsolateMessages } from '../../../../workers/isolate/messages.ts';

/** Sends a guest's messages; collects the requests, the log lines and the answers. */
function guest(limits: object = {}) {
  const asked: { call: number; tool: string; input: unknown }[] = [];
  const logs: LogLine[] = [];
  const answers: [string, string][] = [];
  const abuses: string[] = [];
  const messages = new IsolateMessages(
    { ...defaultLimits, ...limits },
    {
      tools: ['file_read'],
      ask: (call, tool, input) => asked.push({ call, tool, input }),
      log: (line) => logs.push(line),
      abused: (error) => abuses.push(error.code),
    },
    systemPowers(),
  );
  messages.connect((id, answer) => answers.push([id, answer]));
  const send = (...words: unknown[]) => messages.receive(words[0], words[1], words[2], words[3]);
  return { messages, send, asked, logs, answers, abuses };
}

test('a message that is no operation, or no text, is ignored', () => {
  const { send, asked, logs, answers } = guest();
  const strange = [undefined, null, 1, {}, [], () => 1, Symbol('x'), { toString: () => 'call' }];
  for (const it of strange) {
    send(it, '1', 'file_read', '{}');
    send('call', it, 'file_read', '{}');
    if (it !== undefined) send('call', '1', it, '{}');
    if (it !== undefined) send('log', 'log', it);
  }
  for (const it of ['__proto__', 'constructor', 'fail', '']) send(it, 'x', 'y', 'z');
  expect([asked, logs, answers]).toEqual([[], [], []]);
});

test('no more lines and characters are logged than may be, all of them well-formed and of a known level', () => {
  const { send, logs } = guest({ codeLogsMax: 3, codeLogChars: 10 });
  send('log', 'shout', 'x');
  send('log', 'log', '\ud800four');
  send('log', 'warn', 'x'.repeat(100));
  send('log', 'log', 'more');
  expect(logs).toEqual([
    { level: 'log', text: '\ufffdfour' },
    { level: 'warn', text: 'xxxxx' },
  ]);
  const short = guest({ codeLogsMax: 3 });
  for (let i = 0; i < 10; i++) short.send('log', 'log', '');
  expect(short.logs.length).toBe(3);
});

test('calls wait for those under way, and are refused beyond their number, until the program that goes on is ended', () => {
  const { messages, send, asked, answers, abuses } = guest({ codeCallsMax: 3, codeConcurrencyMax: 2 });
  for (let i = 0; i < 7; i++) send('call', `${i}`, 'file_read', '{}');
  expect(asked.map(({ call }) => call)).toEqual([1, 2]);
  messages.settleCall({ id: 0, call: 99, data: 1 });
  messages.settleCall({ id: 0, call: 1, data: { __proto__: null, a: 1 } });
  expect(asked.map(({ call }) => call)).toEqual([1, 2, 3]);
  expect(answers.filter(([id]) => id === '0')).toEqual([['0', 'd{"a":1}']]);
  expect(answers.filter(([, answer]) => answer.includes('RATE_LIMITED')).map(([id]) => id)).toEqual([
    '3',
    '4',
    '5',
    '6',
  ]);
  expect(abuses).toEqual(['CODE_ERROR']);
});

test.each([
  ['a tool that it was not given', 'file_write', '{}', 'TOOL_NOT_FOUND'],
  ['a name of every object', '__proto__', '{}', 'TOOL_NOT_FOUND'],
  ['what is no JSON', 'file_read', '{', 'INPUT_INVALID'],
  ['too long an input', 'file_read', `"${'x'.repeat(100)}"`, 'INPUT_INVALID'],
])('%s is refused', (_, tool, json, code) => {
  const { send, answers } = guest({ codeCallBytes: 50 });
  send('call', '1', tool, json);
  expect(answers.map(([id, answer]) => [id, (JSON.parse(answer.slice(1)) as { code: string }).code])).toEqual([
    ['1', code],
  ]);
});

test('timers are no more than may wait, whatever they are told, and none goes off after the end', async () => {
  const { messages, send, answers } = guest({ codeTimersMax: 3 });
  for (const [at, delay] of ['NaN', '-1', '0', '0'].entries()) send('sleep', `${at}`, `timer ${at}`, delay);
  send('wake', 'timer 1');
  send('wake', 'no such');
  await expect.poll(() => answers.length).toBe(2);
  send('sleep', 'late', 'timer 9', 'Infinity');
  messages.close();
  expect(answers.map(([id]) => id)).toEqual(['0', '2']);
});

test('the first end stands', async () => {
  const { messages, send } = guest();
  const done = messages.nextEnd();
  send('done', 'v1');
  send('done', 'v2');
  messages.fail(new Error('late'));
  expect(await done).toBe('v1');
});
