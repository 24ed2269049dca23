/** Processes that a test answers in place of running them, by `expectProcess` of `ringfence/testing`. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startTestDaemon, type TestDaemon } from '../../src/testing/testing.ts';

let daemon: TestDaemon;
beforeEach(async () => {
  daemon = await startTestDaemon({
    approvals: 'approve',
    policy: 'rules:\n  - { id: no, match: { command: [make] }, decision: deny, reason: No. }\n',
  });
});
afterEach(() => daemon.close().catch(() => {}));

const run = (command: string, more: object = {}) => daemon.call('terminal_execute', { command, ...more });

test('an expected process is answered, counted and not run, and its record has the command', async () => {
  const push = daemon.expectProcess(/^git push/, { stderr: "it's \n$HOME", exitCode: 7 });
  const tests = daemon.expectProcess('npm test', ({ input }) => ({ stdout: `in ${String(input.cwd)}\n` }), 2);
  expect(await run('git push --force; touch ran')).toMatchObject({
    success: true,
    data: { stdout: '', stderr: "it's \n$HOME", exitCode: 7 },
    metadata: { filesChanged: [] },
  });
  for (const _ of [1, 2]) expect(await run('npm test')).toMatchObject({ data: { stdout: 'in .\n', exitCode: 0 } });
  expect(push.calls).toMatchObject([{ tool: 'terminal_execute', command: 'git push --force; touch ran' }]);
  expect(tests.calls).toHaveLength(2);
  const { entries } = (await daemon.operator.request('audit.query', { text: 'touch ran' })) as { entries: unknown[] };
  expect(entries.length).toBeGreaterThan(0);
  await daemon.close();
});

test('a script is answered as a command is, and a denied command never becomes a process', async () => {
  const script = daemon.expectProcess(/echo/, { stdout: 'instead' });
  expect(await daemon.call('terminal_script', { script: 'echo "$1"', args: ['a'] })).toMatchObject({
    data: { stdout: 'instead' },
  });
  expect(await run('make')).toMatchObject({ error: { code: 'POLICY_DENIED' } });
  expect(script.calls).toMatchObject([{ tool: 'terminal_script', input: { args: ['a'] } }]);
  await daemon.close();
});

test('a process that none expects, or that comes once too often, fails its call and the test', async () => {
  daemon.expectProcess('one');
  expect(await run('one')).toMatchObject({ success: true });
  const refused = { error: { code: 'UNSUPPORTED', message: 'the test expects no process `one`' } };
  expect(await run('one')).toMatchObject(refused);
  expect(await daemon.call('code_test', { runner: 'node' })).toMatchObject({ error: { code: 'UNSUPPORTED' } });
  await expect(daemon.close()).rejects.toThrow('2 processes came unexpected, the first: one');
});

test('a process that did not come as often as expected fails the test, as does an answer that throws', async () => {
  daemon.expectProcess('never', {}, 3);
  await expect(daemon.close()).rejects.toThrow('never came 0 times of 3');
  const other = await startTestDaemon();
  other.expectProcess('bad', () => {
    throw new Error('no answer');
  });
  expect(await other.call('terminal_execute', { command: 'bad' })).toMatchObject({ error: { code: 'UNSUPPORTED' } });
  await expect(other.close()).rejects.toThrow('no answer');
});

test('without an expectation commands are run', async () => {
  expect(await run('printf real')).toMatchObject({ data: { stdout: 'real' } });
  await daemon.close();
});
