/** Pages and PDFs that take memory outside of the JavaScript heap: they end the process that reads them, and nothing else. */

import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { deflateSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

const MIB = 1024 * 1024;

/** A PDF of one page whose content is `bytes` spaces, of which a thousandth is sent. */
function bombOf(bytes: number): Buffer {
  const content = deflateSync(Buffer.alloc(bytes, 0x20), { level: 9 });
  const objects = [
    Buffer.from('<< /Type /Catalog /Pages 2 0 R >>'),
    Buffer.from('<< /Type /Pages /Kids [3 0 R] /Count 1 >>'),
    Buffer.from('<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] /Contents 4 0 R /Resources << >> >>'),
    Buffer.concat([
      Buffer.from(`<< /Length ${content.length} /Filter /FlateDecode >>\nstream\n`),
      content,
      Buffer.from('\nendstream'),
    ]),
  ];
  const pieces = [Buffer.from('%PDF-1.4\n')];
  const offsets: number[] = [];
  for (const [at, it] of objects.entries()) {
    offsets.push(Buffer.concat(pieces).length);
    pieces.push(Buffer.from(`${at + 1} 0 obj\n`), it, Buffer.from('\nendobj\n'));
  }
  const start = Buffer.concat(pieces).length;
  const rows = offsets.map((it) => `${String(it).padStart(10, '0')} 00000 n \n`).join('');
  pieces.push(
    Buffer.from(
      `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`,
    ),
  );
  return Buffer.concat(pieces);
}

let daemon: TestDaemon;
let client: Client;
let server: Server;
let origin: string;

beforeAll(async () => {
  const bomb = bombOf(1_024 * MIB);
  server = createServer(({ url }, response) => {
    if (url === '/bomb') response.writeHead(200, { 'content-type': 'application/pdf' }).end(bomb);
    else response.writeHead(200, { 'content-type': 'text/html' }).end('<main><p>Plain.</p></main>');
  });
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  origin = `http://${host}`;
  daemon = await startDaemon({
    policy: `tiers:\n  external_api: { decision: allow, network: { allow: ["${host}"] } }\n`,
    // Time enough for the whole bomb, so that only memory ends it.
    limits: { pageCpuMs: 25_000, pageHostMemoryMb: 1_600 },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.close();
});

const fetched = (path: string) =>
  client.call('web_fetch' as string, { url: `${origin}${path}` } as never) as Promise<ToolResult>;

test('a PDF that unfolds to a gigabyte ends no more than the process that reads it', async () => {
  const before = await fetched('/plain');
  expect(before).toMatchObject({ success: true, data: { content: 'Plain.' } });
  const limits = readFileSync(`/proc/${before.metadata.hostPid}/limits`, 'utf8');
  expect(limits).toMatch(new RegExp(`^Max data size +${1_600 * MIB} +${1_600 * MIB} `, 'm'));
  const result = await fetched('/bomb');
  expect(result).toMatchObject({ success: false });
  expect(['HOST_CRASHED', 'MEMORY_LIMIT', 'UNSUPPORTED', 'CPU_LIMIT']).toContain(result.success || result.error.code);
  const { VmHWM = '0' } = Object.fromEntries(
    readFileSync(`/proc/${daemon.pid}/status`, 'utf8')
      .split('\n')
      .map((it) => it.split(/:\s+/)),
  ) as Record<string, string>;
  expect(Number.parseInt(VmHWM, 10)).toBeLessThan(400 * 1024);
  expect(await fetched('/plain')).toMatchObject({ success: true, data: { content: 'Plain.' } });
});
