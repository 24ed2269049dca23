/** A service over TLS with an authority of its own, which plays answers and keeps each request as it came. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import { temporaryDir } from './daemon.ts';

export interface PlayedAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text as it is, anything else as JSON. */
  readonly body?: unknown;
}

export interface Service extends AsyncDisposable {
  readonly port: number;
  /** `https://127.0.0.1:PORT`. */
  readonly base: string;
  /** File with the certificate of its authority. */
  readonly ca: string;
  /** Requests in the order of their arrival, byte by byte, with HOST for its own host and port. */
  readonly requests: string[];
  /** Answers the next request without an answer of its own; `hang` answers never, `cut` closes the connection. */
  play(...answers: (PlayedAnswer | 'hang' | 'cut')[]): void;
  /** What was played and not asked for yet. */
  readonly played: (PlayedAnswer | 'hang' | 'cut')[];
  /** Answers every request that nothing was played for. */
  always(answer: (request: string) => PlayedAnswer): void;
}

/** Makes the key and the certificate of 127.0.0.1, which is its own authority. */
export function authorityIn(folder: string): { readonly key: string; readonly ca: string } {
  const [key, ca] = [join(folder, 'key.pem'), join(folder, 'ca.pem')];
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key, '-out', ca, ...subject];
  execFileSync('openssl', made, { stdio: 'ignore' });
  return { key, ca };
}

export async function startService(): Promise<Service> {
  const folder = temporaryDir('service');
  const { key, ca } = authorityIn(folder);
  const played: (PlayedAnswer | 'hang' | 'cut')[] = [];
  const requests: string[] = [];
  const sockets = new Set<TLSSocket>();
  let byDefault = (_: string): PlayedAnswer => ({ status: 500, body: { message: 'nothing was played' } });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(ca) }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    let text = '';
    socket.on('data', (piece: Buffer) => {
      text += piece.toString('latin1');
      const [head, body] = splitHead(text);
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
      if (body === undefined || body.length < length) return;
      const request = Buffer.from(text, 'latin1').toString('utf8').replaceAll(`127.0.0.1:${port}`, 'HOST');
      text = '';
      requests.push(request);
      const answer = played.shift() ?? byDefault(request);
      if (answer === 'cut') socket.destroy();
      else if (answer !== 'hang') socket.end(toHttp(answer));
    });
  });
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    base: `https://127.0.0.1:${port}`,
    ca,
    requests,
    played,
    play: (...answers) => void played.push(...answers),
    always: (answer) => {
      byDefault = answer;
    },
    async [Symbol.asyncDispose]() {
      for (const it of sockets) it.destroy();
      await new Promise((ended) => void server.close(ended));
      rmSync(folder, { recursive: true });
    },
  };
}

function splitHead(text: string): [string, string?] {
  const end = text.indexOf('\r\n\r\n');
  return end < 0 ? [text] : [text.slice(0, end), text.slice(end + 4)];
}

function toHttp({ status = 200, headers = {}, body = '' }: PlayedAnswer): Buffer {
  const isText = typeof body === 'string';
  const content = Buffer.from(isText ? body : JSON.stringify(body));
  const all = {
    'content-type': isText ? 'text/plain' : 'application/json',
    'content-length': String(content.length),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} Played\r\n${lines.join('')}\r\n`), content]);
}
