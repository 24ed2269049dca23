/** A fleet on machines with a network of their own: cables that are pulled and put back, as no process on them notices. */
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import { decode } from '../../src/wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../../src/wire/protocol/frame.ts';
import { connectUnix } from '../../src/wire/transport/unix-socket.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { clientOf, noBus, TestFleet } from '../support/fleet.ts';
import { noNetwork, TestNetwork } from '../support/network.ts';

const POLICY = `
tiers: { execute: { decision: allow, locks: workspace } }
rules:
  - { id: notes, match: { write: "notes/**" }, decision: ask, reason: Notes are the person's. }
`;
const MIB = 1024 * 1024;
const UNKNOWN = { success: false, error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } } };
const why = noBus ?? noNetwork;

describe.skipIf(why !== undefined)(`a fleet on a network${why ? ` (${why})` : ''}`, () => {
  let network: TestNetwork;
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  let socket: string;
  beforeAll(async () => {
    network = await TestNetwork.start(['bus', 'gateway', 'node-a', 'node-b', 'twin']);
    fleet = await TestFleet.start(network);
    [a, b] = [await fleet.node('node-a', { policy: POLICY }), await fleet.node('node-b')];
    socket = await fleet.gateway();
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    await network?.[Symbol.asyncDispose]();
  });

  const onA = (): Promise<Client> => clientOf(socket, { workspace: `node-a:${a.workspace}` });
  const onB = (): Promise<Client> => clientOf(socket, { workspace: `node-b:${b.workspace}` });
  const append = (name: string) => ['terminal_execute', { command: `echo x >> ${name}` }] as const;
  const linesOf = (daemon: TestDaemon, name: string): number => {
    const path = join(daemon.workspace, name);
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
  };

  test('a node whose cable is pulled is lost, works on for itself, and starts nothing of what waited', async () => {
    await using client = await onA();
    const running = client.call('terminal_execute', { command: 'echo x >> running; sleep 4' });
    const queued = client.call(...append('queued'));
    await until(() => linesOf(a, 'running') === 1);
    network.cut('node-a');
    try {
      expect(await running).toMatchObject(UNKNOWN);
      expect(await queued).toMatchObject(UNKNOWN);
      await expect(createClient({ socket, workspace: `node-a:${a.workspace}` })).rejects.toThrow('node-a');
      await using local = await a.connect();
      expect(await local.call(...append('local'))).toMatchObject({ success: true });
    } finally {
      network.heal('node-a');
    }
    await using again = await onA();
    expect(await again.call(...append('healed'))).toMatchObject({ success: true });
    const ran = ['running', 'queued', 'local', 'healed'].map((it) => linesOf(a, it));
    expect(ran).toEqual([1, 0, 1, 1]);
  });

  test('a call that the network delivers after the loss of its node is not run', async () => {
    await using client = await onA();
    expect(await client.call('file_list', {})).toMatchObject({ success: true });
    network.cut('node-a');
    try {
      // The kernel of the bus keeps the call, and sends it when the cable is back.
      expect(await client.call(...append('zombie'))).toMatchObject(UNKNOWN);
    } finally {
      network.heal('node-a');
    }
    await using again = await onA();
    expect(await again.call(...append('after'))).toMatchObject({ success: true });
    expect([linesOf(a, 'zombie'), linesOf(a, 'after')]).toEqual([0, 1]);
  });

  test('a gateway whose cable is pulled loses all its nodes, and they end its sessions', async () => {
    await using left = await onA();
    await using right = await onB();
    const calls = [left, right].map((it) => it.call('terminal_execute', { command: 'echo x >> begun; sleep 60' }));
    await until(() => linesOf(a, 'begun') === 1 && linesOf(b, 'begun') === 1);
    network.cut('gateway');
    try {
      for (const it of calls) expect(await it).toMatchObject(UNKNOWN);
      await using operator = await b.connect({ role: 'operator' });
      const running = async () => ((await operator.request('status', {})) as Status).calls.running;
      await expect.poll(running).toBe(0);
    } finally {
      network.heal('gateway');
    }
    await using again = await onB();
    expect(await again.call(...append('healed'))).toMatchObject({ success: true });
  });

  test('a bus that is away for long makes calls unknown, and one that is soon back leaves none without an answer', async () => {
    await using client = await onB();
    const call = client.call('terminal_execute', { command: 'echo x >> under; sleep 60' });
    await until(() => linesOf(b, 'under') === 1);
    await fleet.stopBus();
    expect(await call).toMatchObject(UNKNOWN);
    await fleet.startBus();
    await using again = await onB();
    const short = again.call('terminal_execute', { command: 'echo x >> short; sleep 5' });
    await until(() => linesOf(b, 'short') === 1);
    await fleet.stopBus();
    await fleet.startBus();
    // Whether messages were lost depends on the moment.
    const result = await short;
    if (!result.success) expect(result).toMatchObject(UNKNOWN);
    expect([linesOf(b, 'under'), linesOf(b, 'short')]).toEqual([1, 1]);
    await using last = await onB();
    expect(await last.call(...append('restarted'))).toMatchObject({ success: true });
  });

  test('a client that reads nothing holds up its own session alone, and gets everything when it reads', async () => {
    const size = 256 * 1024;
    writeFileSync(join(b.workspace, 'large'), 'x'.repeat(size));
    const { socket: slow } = await connectUnix(socket);
    const send = (id: number, method: string, params: object) =>
      slow.write(toFrame({ id, method, params }, limits.frameBytesMax));
    const client = { name: 'slow', version: '1' };
    send(0, 'hello', { protocol: 1, client, workspace: `node-b:${b.workspace}` });
    const frames = new FrameReader(limits.frameBytesMax);
    let read = 0;
    const answers = async (count: number): Promise<void> => {
      for await (const chunk of slow.iterator({ destroyOnReturn: false })) {
        for (const it of frames.push(chunk as Buffer)) {
          expect(decode(it, limits)).toMatchObject(
            read++ === 0 ? { id: 0, result: {} } : { result: { success: true } },
          );
          if (read === count) return;
        }
      }
    };
    await answers(1);
    const asked = 40;
    for (let id = 1; id <= asked; id++) send(id, 'tools.call', { tool: 'file_read', input: { path: 'large' } });
    await using fast = await onB();
    for (let n = 0; n < 10; n++)
      expect(await fast.call('file_read', { path: 'large' })).toMatchObject({ success: true });
    expect(read).toBe(1);
    await answers(1 + asked);
    slow.destroy();
  });

  test('output that fills a slow cable keeps neither a heartbeat nor the answer to a question waiting', async () => {
    writeFileSync(join(a.workspace, 'flood'), 'x'.repeat(MIB));
    network.slow('node-a', MIB);
    try {
      await using asking = await onA();
      await using stack = new AsyncDisposableStack();
      const clients = await Promise.all(Array.from({ length: 8 }, async () => stack.use(await onA())));
      let isAnswered = false;
      // Each session fills its window, which is more than the cable takes in the time after which a node is lost.
      const flood = async (client: Client): Promise<void> => {
        while (!isAnswered) expect(await client.call('file_read', { path: 'flood' })).toMatchObject({ success: true });
      };
      const floods = Promise.all([...clients, ...clients].map(flood));
      const note = asking.call('file_write', { path: 'notes/a.md', content: 'asked' });
      let questions: { approvalId: string }[] = [];
      while (questions.length === 0) questions = await fleet.json('approvals list');
      expect(await fleet.cli('approvals approve', questions[0]?.approvalId ?? '')).toMatchObject({ code: 0 });
      expect(await note).toMatchObject({ success: true });
      isAnswered = true;
      await floods;
    } finally {
      network.fast('node-a');
    }
  });

  test('a second machine with the key of a node does not get the workspaces that the first one owns', async () => {
    await using client = await onA();
    const stateDir = temporaryDir('twin');
    try {
      cpSync(join(a.stateDir, 'fleet'), join(stateDir, 'fleet'), { recursive: true });
      const args = ['--fleet', fleet.url];
      // The same path is the same folder here, so that a call which both machines run leaves two lines.
      const same = { stateDir, workspace: a.workspace, policy: POLICY, args };
      await using _ = await startDaemon({ ...same, launcher: network.launcher('twin') });
      // Both machines hear the gateway; now and then the second one answers first.
      await expect
        .poll(() => createClient({ socket, workspace: `node-a:${a.workspace}` }).then(endOf, String))
        .toContain('another node owns the workspace');
      for (const n of [1, 2, 3, 4, 5]) {
        expect(await client.call(...append(`twin-${n}`))).toMatchObject({ success: true });
        expect(linesOf(a, `twin-${n}`)).toBe(1);
      }
    } finally {
      removeTree(stateDir);
    }
  });

  test('a node that follows another policy than the roster names gets no session', async () => {
    await using operator = await b.connect({ role: 'operator' });
    const { version } = ((await operator.request('status', {})) as Status).policy;
    expect((await fleet.cli('policy', version)).code).toBe(0);
    await expect
      .poll(() => createClient({ socket, workspace: `node-a:${a.workspace}` }).then(() => 'open', String))
      .toContain('policy');
    await using client = await clientOf(socket);
    expect((await client.hello).session.workspace).toBe(b.workspace);
    expect((await fleet.cli('policy')).code).toBe(0);
    await using again = await onA();
    expect(await again.call('file_list', {})).toMatchObject({ success: true });
  });
});

async function endOf(client: Client): Promise<string> {
  await client[Symbol.asyncDispose]();
  return 'opened';
}

interface Status {
  readonly calls: { readonly running: number };
  readonly policy: { readonly version: string };
}
