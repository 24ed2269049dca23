/** MCP lines, and what commands send to the egress proxy: HTTP and SOCKS. Both ends are in memory. */
import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { SocketTransport } from '../../src/faces/mcp/socket-transport.ts';
import { ConnectionGuard } from '../../src/sandbox/egress/connection-guard.ts';
import { serveSocks } from '../../src/sandbox/egress/socks.ts';
import { exchange } from './exchange.ts';
import { holds } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

const powers = systemPowers();
/** Small bounds, so that inputs of ordinary length reach them; but on a busy machine no answer is to be late. */
const limits = {
  ...defaultLimits,
  mcpMessageBytesMax: 2000,
  messageDepthMax: 12,
  messageElementsMax: 200,
  mcpEndGraceMs: 60_000,
};

/** Lets no destination through and looks up no name. */
const guard = new ConnectionGuard({
  layers: [[]],
  limits,
  powers,
  names: { lookup: () => Promise.reject(new Error('no name is looked up here')) },
});

/** What an MCP connection that answers each request at once says to `input`. */
const mcpAnswers = (input: Buffer, pieceBytes: number): Promise<Buffer> =>
  exchange(input, pieceBytes, (side) => {
    const transport = new SocketTransport(side as Socket, { limits, powers, budget: { bytes: 0 } });
    transport.onmessage = (message) => {
      if ('id' in message && 'method' in message)
        void transport.send({ jsonrpc: '2.0', id: message.id, result: { method: message.method } } as never);
    };
    void transport.start();
  });

export const streamTargets: Record<string, FuzzTarget> = {
  mcp: {
    seeds: [
      '\x05{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
      '\x40{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"file_read","arguments":{"path":"x"},"_meta":{"progressToken":1}}}\n\n[1]\n{"jsonrpc":"2.0","id":1,"result":{}}\n',
    ],
    words: [
      '\n',
      '\r\n',
      '"id":',
      '"method":',
      '"params":',
      '"jsonrpc":"2.0"',
      '"_meta":{}',
      'notifications/cancelled',
      '{',
      '}',
    ],
    async run(input) {
      const lines = input.subarray(1);
      const answersOf = async (pieceBytes: number) =>
        (await mcpAnswers(lines, pieceBytes)).toString().split('\n').sort();
      const answers = await answersOf(1 + (input[0] ?? 0));
      // In any order: a line that is too long is refused before the lines ahead of it are served.
      holds(isDeepStrictEqual(answers, await answersOf(65_536)), 'lines get the same answers however they are cut');
      const codes = answers
        .filter(Boolean)
        .map((it) => (JSON.parse(it) as { error?: { code: number } }).error?.code ?? 'ok');
      return [...new Set(codes)].sort((a, b) => `${a}`.localeCompare(`${b}`)).join(' ');
    },
  },
  socks: {
    seeds: [
      Buffer.from('05010005010003076578616d706c65' + '01bb', 'hex'),
      Buffer.from('0502000205010001' + '7f000001' + '0050', 'hex'),
      Buffer.from(`05010005010004${'0'.repeat(31)}10050`, 'hex'),
    ],
    words: ['\x05\x01\0', '\x05\x01\0\x01', '\x05\x01\0\x03', '\x05\x01\0\x04', 'localhost'],
    async run(input) {
      const answer = await exchange(input, 65_536, (side) => {
        // It ended in the middle of its request.
        serveSocks(side as Socket, guard, () => {}).catch(() => side.destroy());
      });
      holds(answer.length <= 12, 'an answer has a choice of method and a reply at most');
      holds(answer.length < 4 || answer[3] !== 0, 'no destination is let through');
      return answer.toString('hex', 0, 4);
    },
  },
};
