/** The generated protocol.schema.json is valid for all messages that a real daemon sends and accepts. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { answers } from '../../src/wire/protocol/answers.ts';
import { decode } from '../../src/wire/protocol/codec.ts';
import { encodeJson } from '../../src/wire/protocol/json.ts';
import { type OpenDaemon, openDaemon, removeTree, repository, temporaryDir, until } from '../support/daemon.ts';
import { type Answer, RawPeer } from '../support/raw-peer.ts';
import { ScriptedTasks } from '../support/tasks.ts';

const generator = [join(repository, 'script/gen-protocol-schema.ts'), '--print'];
const schema = JSON.parse(execFileSync(process.execPath, generator, { encoding: 'utf8' }));
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema(schema, 'protocol');

/** The problems of a value by the named schema. */
function problems(name: string, value: unknown): string[] {
  const validate = ajv.getSchema(`protocol#/$defs/${name}`);
  if (!validate) return [`there is no schema ${name}`];
  if (validate(JSON.parse(encodeJson(value).toString()))) return [];
  return (validate.errors ?? []).map((it) => `${name}${it.instancePath} ${it.message} ${JSON.stringify(it.params)}`);
}

let daemon: OpenDaemon;
let agent: RawPeer;
let operator: RawPeer;
let models: ScriptedTasks;
const clones = temporaryDir('fleet-folder');
beforeAll(async () => {
  models = await ScriptedTasks.start();
  daemon = await openDaemon({
    policy: 'extends: default\ntiers:\n  execute: { decision: ask }\n',
    config: { principals: { ci: {} }, agents: models.profiles(), fleet: { folder: clones } },
  });
  agent = new RawPeer(daemon.socket);
  operator = new RawPeer(daemon.socket);
});
afterAll(async () => {
  for (const it of [agent, operator]) it.socket.destroy();
  await daemon[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
  removeTree(clones);
});

const asked = new Set<string>();
const wrong: string[] = [];
/** Makes a request, and collects violations of the schema. */
async function ask(peer: RawPeer, method: string, params: object = {}): Promise<Answer> {
  asked.add(method);
  wrong.push(...problems('Request', { id: 1, method, params }));
  const answer = await peer.request(method, params);
  wrong.push(...problems('Response', answer));
  if (answer.error === undefined) wrong.push(...problems(`${method}.result`, answer.result));
  return answer;
}
const call = (tool: string, input: object, options: object = {}) => ask(agent, 'tools.call', { tool, input, options });
const told = () => [...agent.answers, ...operator.answers].filter((it) => it.method !== undefined);

/** Opens a session on a workspace that the daemon makes; test/attack/fleet-workspaces.test.ts has what comes back from one. */
async function workOnUpload(): Promise<void> {
  const named = { workspace: 'bundle:', node: 'here' };
  const { id, token } = (await ask(operator, 'fleet.admit', named)).result as { id: string; token: string };
  await ask(operator, 'fleet.ready', { id });
  const placed = new RawPeer(daemon.socket);
  await ask(placed, 'hello', { protocol: 1, client: { name: 'schema', version: '1' }, token });
  await ask(placed, 'workspaces.upload', { offset: 0, data: Buffer.from('no bundle') });
  await ask(placed, 'workspaces.unpack', { commit: '0'.repeat(40) });
  await ask(placed, 'workspaces.collect');
  await ask(placed, 'workspaces.read', { offset: 0 });
  placed.socket.destroy();
  await ask(operator, 'fleet.close', { id });
}

test('every method is asked and answers as the schema says, and so do errors and notifications', async () => {
  const hello = { protocol: 1, client: { name: 'schema', version: '1' }, workspace: daemon.workspace };
  await ask(agent, 'hello', { ...hello, resumeMs: 60_000 });
  await ask(operator, 'hello', { ...hello, role: 'operator', token: daemon.token('operator') });
  await ask(operator, 'events.subscribe', { topics: ['calls', 'approvals', 'audit', 'policy'] });
  for (const format of ['ringfence', 'mcp', 'openai', 'openai-chat', 'anthropic'])
    await ask(agent, 'tools.list', { format });
  await ask(agent, 'tools.search', { query: 'read a file' });

  const passed = await ask(agent, 'sessions.attenuate', { tools: ['file_*'], budget: { calls: 3 }, expiresIn: 60_000 });
  await ask(agent, 'sessions.revoke', { id: (passed.result as { id: string }).id });

  models.on('look', [{ text: 'I look.', calls: [{ name: 'file_list', input: { path: '.' } }] }, { text: 'done' }]);
  await call('task_delegate', { prompt: 'look' });
  const { tasks } = (await ask(agent, 'tasks.list')).result as { tasks: { taskId: string }[] };
  for (const method of ['tasks.show', 'tasks.cancel']) await ask(agent, method, { taskId: tasks[0]?.taskId });

  const written = await call('file_write', { path: 'a.txt', content: 'one\n' });
  await call('file_read', { path: 'a.txt' });
  await call('file_read', { path: '../outside' });
  await call('no_such_tool', {});
  await call('file_write', { path: 'a.txt', content: 'two\n' }, { preview: true });
  const { callId } = written.result as { callId: string };
  await ask(agent, 'calls.get', { callId });
  await ask(agent, 'calls.undo', { callId });
  await ask(agent, 'calls.undo', { callId: 'unknown' });
  await ask(agent, 'checkpoints.name', { name: 'here' });
  await call('file_write', { path: 'a.txt', content: 'three\n' });
  await ask(agent, 'checkpoints.list');
  for (const method of ['checkpoints.diff', 'checkpoints.return'] as const) await ask(agent, method, { name: 'here' });
  await ask(agent, 'checkpoints.return', { name: 'unknown' });

  const { result: shown } = await call('terminal_execute', { command: 'echo 3 > a.txt; rm -f b' }, { preview: true });
  const { id: previewId } = (shown as { preview: { id: string } }).preview;
  for (const path of ['a.txt', 'nothing']) await ask(agent, 'calls.diff', { previewId, path });
  await ask(agent, 'calls.commit', { previewId, paths: ['nothing'] });
  await ask(agent, 'calls.discard', { previewId });
  await ask(agent, 'calls.commit', { previewId: 'unknown' });

  const command = call(
    'terminal_execute',
    { command: 'echo out; echo err >&2; exit 3' },
    { callId: 'c1', progress: true },
  );
  await until(() => operator.answers.some((it) => it.method === 'approval.requested'));
  const { approvals } = (await ask(operator, 'approvals.list')).result as { approvals: { approvalId: string }[] };
  const remember = { scope: 'session', match: 'exact' };
  const [approval] = approvals;
  await ask(operator, 'approvals.get', { approvalId: approval?.approvalId });
  await ask(operator, 'approvals.resolve', { approvalId: approval?.approvalId, decision: 'approve', remember });
  await command;
  await ask(agent, 'results.read', { callId: 'c1', afterSeq: 0 });
  const { grants } = (await ask(operator, 'approvals.grants')).result as { grants: { grantId: string }[] };
  await ask(operator, 'approvals.revoke', { grantId: grants[0]?.grantId });
  await ask(operator, 'approvals.untrusted');
  await ask(agent, 'approvals.list'); // Refused, to check the shape of an error.

  const calls = [
    { id: 'a', tool: 'file_list', input: {} },
    { id: 'b', tool: 'file_read', input: { path: '${a.data.entries[0].name}' } },
  ];
  await ask(agent, 'tools.batch', { calls, options: { progress: true } });
  await ask(agent, 'tools.batch', { calls, options: { plan: true } });
  const { batches } = (await ask(operator, 'batches.list')).result as { batches: { batchId: string }[] };
  await ask(operator, 'batches.get', { batchId: batches[0]?.batchId });
  await ask(agent, 'calls.list');
  await ask(operator, 'calls.find', { id: callId });
  for (const it of ['tools.stats', 'cache.clear', 'costs.read']) await ask(operator, it);
  for (const format of ['text', 'json']) await ask(operator, 'metrics.read', { format });
  await ask(agent, 'calls.cancel', { callId: 'c1' });
  await ask(agent, 'policy.explain', { tool: 'terminal_execute', input: { command: 'git push' } });
  for (const it of ['policy.get', 'status', 'providers.list']) await ask(agent, it);
  await ask(operator, 'policy.backtest', { policy: 'version: 1\n' });
  for (const it of ['audit.verify', 'audit.daily', 'audit.query', 'policy.reload', 'status']) await ask(operator, it);
  await ask(operator, 'calls.list', { everywhere: true, ended: true });
  await ask(operator, 'gateway.pause');
  await ask(operator, 'status');
  await ask(operator, 'gateway.resume');
  await ask(operator, 'background.list');
  await ask(operator, 'session.quarantine');
  // Their errors show the schema; test/daemon/forward.test.ts has the answers of an open port.
  await ask(operator, 'forward.open', { callId: 'none', port: 80 });
  await ask(operator, 'forward.wait', { forwardId: 'none' });
  const { id: admitted } = (await ask(operator, 'fleet.admit')).result as { id: string };
  await ask(operator, 'fleet.confirm', { id: admitted, epoch: 1, confirmedAtMs: 0, notAfterMs: 0 });
  await ask(operator, 'fleet.close', { id: admitted });
  await workOnUpload();
  await ask(operator, 'panel.open');
  await ask(operator, 'panel.sessions');
  await ask(operator, 'panel.revoke', { id: 'p_none' });
  await ask(operator, 'settings.read');
  await ask(operator, 'policy.set', { tool: 'code_run', level: 'ask' });
  await ask(operator, 'audit.prune', { keep: 1000 });
  await ask(operator, 'providers.accept', { provider: 'none', tools: {} });
  const composed = { description: 'One.', inputs: {}, program: 'return 1;', tools: [] };
  await ask(operator, 'plugins.save', { name: 'one', composed });
  await ask(operator, 'plugins.remove', { name: 'one' });
  await ask(operator, 'tokens.rotate', { names: ['ci'] });
  // Its error shows the schema; test/daemon/upgrade.test.ts has the answer of an upgrade.
  writeFileSync(join(daemon.stateDir, 'config.yaml'), '{"limit": 1}');
  await ask(operator, 'upgrade');
  await ask(operator, 'shutdown', { graceMs: 0 });
  await agent.closed;

  expect(Object.keys(answers).filter((it) => !asked.has(it))).toEqual([]);
  for (const it of told()) wrong.push(...problems('Notification', it), ...problems(`${it.method}.params`, it.params));
  expect([...new Set(wrong)]).toEqual([]);
  expect([...new Set(told().map((it) => it.method))]).toEqual(
    expect.arrayContaining([
      'approval.requested',
      'approval.resolved',
      'audit.appended',
      'batch.update',
      'call.output',
    ]),
  );
}, 60_000);

test('the schema refuses each message that the daemon refuses', () => {
  expect(problems('Request', { id: 1, method: 'calls.get', params: { callId: '' } })).not.toEqual([]);
  expect(problems('Request', { id: 1, method: 'calls.gte', params: { callId: 'c' } })).not.toEqual([]);
  expect(problems('Request', { id: 1, method: 'calls.get', params: { callId: 'c', more: 1 } })).not.toEqual([]);
  expect(problems('Request', { id: 1, method: 'status', params: {} })).toEqual([]);
});

/** The bytes of a hex block in docs/protocol.md; comments begin at a fixed column. */
function bytesOf(name: string): Buffer {
  const page = readFileSync(join(repository, 'docs/protocol.md'), 'utf8');
  const block = new RegExp(`^\`\`\`hex ${name}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(page)?.[1] ?? '';
  return Buffer.from(
    block
      .split('\n')
      .map((line) => line.slice(0, 44).replaceAll(' ', ''))
      .join(''),
    'hex',
  );
}

test('the exchange of docs/protocol.md goes over the wire byte by byte as it is written there', async () => {
  await using other = await openDaemon();
  const socket = createConnection(other.socket);
  const came: Buffer[] = [];
  socket.on('data', (it: Buffer) => came.push(it));
  const frame = (at = Buffer.concat(came)) => (at.length >= 4 && at.length >= 4 + at.readUInt32BE() ? at : undefined);
  try {
    socket.write(bytesOf('hello'));
    await until(() => frame() !== undefined);
    expect(decode(Buffer.concat(came.splice(0)).subarray(4), defaultLimits)).toMatchObject({
      id: 1,
      result: { protocol: 1, session: { role: 'agent' } },
    });
    socket.write(bytesOf('request'));
    await until(() => frame() !== undefined);
    expect(Buffer.concat(came).toString('hex')).toBe(bytesOf('answer').toString('hex'));
    expect(bytesOf('answer').length).toBe(4 + 0x18);
  } finally {
    socket.destroy();
  }
});
