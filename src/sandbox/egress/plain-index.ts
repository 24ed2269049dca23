/**
 * The `config.json` of cargo's sparse index, as a command gets it that has no key: its packages lie at `http://HOST:443/`, where the key
 * is added, and none is wanted from the command.
 */
import { Transform } from 'node:stream';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';

/** Passes the file on with its addresses at `host` changed. Ends with an error for a text that is no such file, or too large. */
export function plainIndex(host: string, { egressHeaderBytesMax }: Limits): Transform {
  const pieces: Buffer[] = [];
  let bytes = 0;
  return new Transform({
    transform(piece: Buffer, _, done) {
      pieces.push(piece);
      bytes += piece.length;
      done(bytes > egressHeaderBytesMax ? new Error('the index is too large') : null);
    },
    flush(done) {
      try {
        const config = parseJson(Buffer.concat(pieces).toString('utf8'));
        if (!isRecord(config)) throw new SyntaxError('no object');
        const { 'auth-required': _, ...open } = config;
        const tls = `https://${host.replace(/:443$/, '')}/`;
        const entries = Object.entries(open).map(([name, it]) => [
          name,
          typeof it === 'string' && it.startsWith(tls) ? `http://${host}/${it.slice(tls.length)}` : it,
        ]);
        done(null, JSON.stringify(Object.fromEntries(entries)));
      } catch (error) {
        done(error as Error);
      }
    },
  });
}
