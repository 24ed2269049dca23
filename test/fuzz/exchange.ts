/** A connection in memory that sends an input to what serves it. */
import { type Duplex, duplexPair } from 'node:stream';
import { buffer } from 'node:stream/consumers';

/** Sends `input` in pieces and ends; returns all that came back. */
export async function exchange(input: Buffer, pieceBytes: number, serve: (side: Duplex) => void): Promise<Buffer> {
  const [near, far] = duplexPair();
  // ECONNRESET and similar: the far side ended first.
  near.on('error', () => {});
  far.on('error', () => {});
  serve(far);
  const answer = buffer(near);
  for (let at = 0; at < input.length; at += pieceBytes) near.write(input.subarray(at, at + pieceBytes));
  near.end();
  far.once('close', () => near.push(null));
  return answer;
}
