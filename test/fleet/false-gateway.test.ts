/** What a gateway that was taken over can't get of a node: it speaks the protocol of gateways with a real credential. */
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { type Credential, readCredential } from '../../src/fleet/credential.ts';
import type { FleetLink } from '../../src/fleet/link.ts';
import { connectBus, memberKeys } from '../../src/fleet/nats.ts';
import { FlowGate } from '../../src/fleet/placed/flow-gate.ts';
import { type Opening, openingAnswer, transcriptOf } from '../../src/fleet/placed/opening.ts';
import { createSessionKeys, Sealing } from '../../src/fleet/placed/sealing.ts';
import { SessionStream } from '../../src/fleet/placed/stream.ts';
import { inboxOf, subjects } from '../../src/fleet/subjects.ts';
import { fromWire, toWire } from '../../src/fleet/wire.ts';
import { decode } from '../../src/wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../../src/wire/protocol/frame.ts';
import type { TestDaemon } from '../support/daemon.ts';
import { noBus, TestFleet } from '../support/fleet.ts';

const powers = systemPowers();

describe.skipIf(noBus !== undefined)(`a false gateway${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let credential: Credential;
  let link: FleetLink;
  beforeAll(async () => {
    fleet = await TestFleet.start();
    a = await fleet.node('node-a');
    credential = readCredential(join(dirname(await fleet.gateway()), 'fleet/credential.json'));
    link = await connectBus({ credential, inbox: inboxOf('gateway', 'gateway'), waits: false, limits, powers });
  }, 240_000);
  afterAll(async () => {
    await link?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  /** Opens a session as a gateway does; until the node has the roster with the gateway, it refuses. */
  const open = async (choice: Partial<Opening> = {}, signedChoice = choice): Promise<SessionStream> => {
    const { sign } = await memberKeys(credential.seed);
    for (let tries = 0; ; tries++) {
      const own = createSessionKeys();
      const session = powers.secret().slice(0, 32);
      const body = { gateway: 'gateway', node: 'node-a', session, key: own.publicKey, atMs: powers.now() };
      const opening: Opening = { ...body, ...choice };
      const signature = sign(transcriptOf('test', { ...body, ...signedChoice }));
      let stream: SessionStream | undefined;
      const early: Uint8Array[] = [];
      link.subscribe(subjects.toGateway('gateway', 'node-a', session), ({ data }) =>
        stream ? stream.receive(data) : early.push(data),
      );
      const answer = openingAnswer.parse(
        fromWire(await link.request(subjects.open('node-a'), toWire({ opening, signature }), 15_000)),
      );
      if ('refused' in answer) {
        // The gateway is not heard yet, or the lease of the session before is still given back.
        if (tries > 30 || !/no gateway|another node owns/.test(answer.refused)) throw new Error(answer.refused);
        await sleep(500);
        continue;
      }
      const sealing = new Sealing('gateway', own, answer.key, transcriptOf('test', opening, answer.key));
      const send = (data: Uint8Array) => link.publish(subjects.toNode('node-a', session), data);
      const gate = new FlowGate(link, limits.fleetUnflushedBytes);
      stream = new SessionStream({ sealing, windowBytes: limits.fleetWindowBytes, gate, send });
      for (const it of early) stream.receive(it);
      return stream;
    }
  };
  /** Everything that the node sends until it ends the session. */
  const heard = async (stream: SessionStream): Promise<unknown[]> => {
    const reader = new FrameReader(limits.frameBytesMax);
    const messages: unknown[] = [];
    for await (const bytes of stream) for (const it of reader.push(bytes as Buffer)) messages.push(decode(it, limits));
    return messages;
  };
  const hello = (params: object) => toFrame({ id: 1, method: 'hello', params }, limits.frameBytesMax);
  const client = { name: 'false', version: '1' };

  test.each([
    ['no token', {}],
    ['another token', { token: 'f'.repeat(64) }],
  ])('a session that it opens with %s is ended before the daemon hears of it', async (_, params) => {
    const stream = await open();
    stream.write(hello({ protocol: 1, client, ...params }));
    const messages = await heard(stream);
    // Nothing but the token comes, which every gateway gets.
    expect(messages).toEqual([{ token: expect.any(String) }]);
  });

  test('a session of MCP is opened by the node, and nothing that it sends makes another one of it', async () => {
    const stream = await open({ mcp: { tools: [], readOnly: true } });
    stream.write('{"jsonrpc":"2.0","method":"notifications/ringfence/open","params":{}}\n');
    stream.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",');
    stream.write('"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n');
    const [answer] = (await stream.take(1).toArray()) as [Buffer];
    expect(answer.toString()).toContain('must be the first request');
  });

  test('a choice that was not signed is refused', async () => {
    const mcp = { tools: [], readOnly: false };
    await expect(open({ mcp }, { mcp: { ...mcp, readOnly: true } })).rejects.toThrow('somebody else than the gateway');
    await expect(open({ mcp }, {})).rejects.toThrow('somebody else than the gateway');
    expect(await a.connect().then((it) => it[Symbol.asyncDispose]())).toBeUndefined();
  });
});
