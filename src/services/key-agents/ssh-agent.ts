/** Asks the person's ssh agent what it holds (draft-ietf-sshm-ssh-agent). */
import { connect } from 'node:net';
import type { Powers } from '../../base/powers.ts';

const REQUEST_IDENTITIES = Buffer.from([0, 0, 0, 1, 11]);
const IDENTITIES_ANSWER = 12;
const ANSWER_MS = 2_000;
/** Most bytes of an answer that are read: about 500 large keys. */
const ANSWER_BYTES_MAX = 256 * 1024;

/** The public keys that the agent at a socket holds, in base64 as files have them; none if it does not answer. */
export function keysIn(socket: string, { after }: Pick<Powers, 'after'>): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  const line = connect(socket);
  const late = after(ANSWER_MS, () => line.destroy());
  let answer = Buffer.alloc(0);
  line.on('connect', () => line.write(REQUEST_IDENTITIES));
  line.on('data', (chunk: Buffer) => {
    answer = Buffer.concat([answer, chunk]);
    if (isWhole(answer) || answer.length > ANSWER_BYTES_MAX) line.destroy();
  });
  line.on('error', () => {}); // ENOENT, ECONNREFUSED: 'close' follows.
  line.on('close', () => {
    late.cancel();
    resolve(isWhole(answer) ? keysOf(answer) : []);
  });
  return promise;
}

const isWhole = (answer: Buffer): boolean => answer.length >= 9 && answer.length >= 4 + answer.readUInt32BE(0);

/** The keys of an answer: length, kind, number; then each key and its comment, with their lengths before them. */
function keysOf(answer: Buffer): string[] {
  if (answer[4] !== IDENTITIES_ANSWER) return [];
  const keys: string[] = [];
  let at = 9;
  const take = (): Buffer => {
    const from = at + 4;
    at = from + (from <= answer.length ? answer.readUInt32BE(at) : answer.length);
    return answer.subarray(from, at);
  };
  while (keys.length < answer.readUInt32BE(5) && at < answer.length) {
    keys.push(take().toString('base64'));
    take();
  }
  return keys;
}
