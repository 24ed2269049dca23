/** Asks the person's ssh agent what it holds (draft-ietf-sshm-ssh-agent). */
import { connect } from 'node:net';
import type { Powers } from '../../base/powers.ts';

const REQUEST_IDENTITIES = Buffer.from([0, 0, 0, 1, 11]);
const IDENTITIES_ANSWER = 12;
/** Length, kind and number of keys. */
const HEAD_BYTES = 9;
const ANSWER_MS = 2_000;

/** How many keys the agent at a socket holds; 0 for one that does not answer. */
export function keysIn(socket: string, { after }: Pick<Powers, 'after'>): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const line = connect(socket);
  const late = after(ANSWER_MS, () => line.destroy());
  let answer = Buffer.alloc(0);
  line.on('connect', () => line.write(REQUEST_IDENTITIES));
  line.on('data', (chunk: Buffer) => {
    if (answer.length < HEAD_BYTES) answer = Buffer.concat([answer, chunk]);
    if (answer.length >= HEAD_BYTES) line.destroy();
  });
  line.on('error', () => {}); // ENOENT, ECONNREFUSED: 'close' follows.
  line.on('close', () => {
    late.cancel();
    const isAnswer = answer.length >= HEAD_BYTES && answer[4] === IDENTITIES_ANSWER;
    resolve(isAnswer ? answer.readUInt32BE(5) : 0);
  });
  return promise;
}
