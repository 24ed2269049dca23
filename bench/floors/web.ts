/** What pages cost at least: a local server of pages, and Chromium by itself. */
import { spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PARAGRAPH = '<p>Some words of a <a href="/page">page</a>, and <b>more</b> of them.</p>\n';

/** A page of about that many bytes. */
const pageOf = (bytes: number): string =>
  `<!doctype html><title>Page</title><main><h1>Page</h1>${PARAGRAPH.repeat(Math.ceil(bytes / PARAGRAPH.length))}</main>`;

export interface PageServer extends AsyncDisposable {
  /** `host:port`. */
  readonly host: string;
}

/** Serves pages at /BYTES, which may be kept below /kept/. */
export async function startPages(): Promise<PageServer> {
  const pages = new Map<number, string>();
  const server = createServer(({ url = '' }, response) => {
    const bytes = Number(/(\d+)$/.exec(url)?.[1] ?? 0);
    const page = pages.get(bytes) ?? pageOf(bytes);
    pages.set(bytes, page);
    const caching = url.startsWith('/kept/') ? 'max-age=3600' : 'no-store';
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': caching }).end(page);
  });
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Takes one screenshot by Chromium's own switch, as a user without rights, since Chromium refuses root. */
export async function bareScreenshot(program: string, url: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bare-'));
  const isRoot = process.getuid?.() === 0;
  const [uid, gid] = [NOBODY, NOBODY];
  if (isRoot) chownSync(folder, uid, gid);
  try {
    const flags = [
      '--headless',
      '--no-first-run',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--window-size=1280,800',
    ];
    const files = [`--user-data-dir=${folder}/profile`, `--screenshot=${folder}/page.png`];
    const child = spawn(program, [...flags, ...files, url], {
      stdio: 'ignore',
      env: { PATH: '/usr/bin:/bin', HOME: folder },
      cwd: '/',
      timeout: BARE_MS,
      ...(isRoot && { uid, gid }),
    });
    const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
    if (code !== 0) throw new Error(`Chromium ended with ${code}`);
  } finally {
    // Its helpers may still write.
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const NOBODY = 65_534;
const BARE_MS = 60_000;
