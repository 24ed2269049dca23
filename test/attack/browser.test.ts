/** Pages that are made to get out of the browser that shows them: past its proxy, to files, to other windows, to more than their share. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { findChromium } from '../../src/sandbox/chromium.ts';
import { isBelow, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
let server: Server;
let origin: string;
/** Connections to a server that no policy lists. */
let unlisted: Server;
let unlistedAsked = 0;

type Serve = (request: IncomingMessage, response: ServerResponse) => void;
const TYPE = { 'content-type': 'text/html; charset=utf-8' };
const html =
  (body: string): Serve =>
  (_, response) =>
    void response.writeHead(200, TYPE).end(body);

const elsewhere = () => `http://127.0.0.1:${(unlisted.address() as AddressInfo).port}`;
/** Addresses that a page must not reach, by what would lead there. */
const forbidden = () => [
  'http://169.254.169.254/latest/meta-data/',
  'http://2852039166/',
  'http://[::ffff:169.254.169.254]/',
  'http://10.0.0.1/',
  'http://localhost:8123/',
  `${elsewhere()}/`,
];

const PAGES: Record<string, Serve> = {
  '/subresources': (request, response) => {
    const all = forbidden();
    const tags = all.map(
      (it) => `<img src="${it}i.png"><iframe src="${it}f.html"></iframe><script src="${it}s.js"></script>`,
    );
    const fetches = all.map(
      (it) => `fetch("${it}x", {mode: "no-cors"}).catch(() => {}); navigator.sendBeacon("${it}b", "x");`,
    );
    const sockets = `try { new WebSocket("ws://169.254.169.254/w") } catch {}`;
    html(`<title>Sub</title>${tags.join('')}<script>${fetches.join('')}${sockets}</script>`)(request, response);
  },
  '/worker': html(`<title>Worker</title><script>
    navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then((it) => it.active.postMessage("go"));
    </script>`),
  '/worker.js': (_, response) =>
    void response
      .writeHead(200, { 'content-type': 'text/javascript' })
      .end(
        `onmessage = () => fetch("${elsewhere()}/w", {mode: "no-cors"}); onactivate = (it) => it.waitUntil(clients.claim());`,
      ),
  '/leaks': html(`<title>Leaks</title><script>
    const peer = new RTCPeerConnection({iceServers: [{urls: "stun:169.254.169.254:3478"}, {urls: "stun:leak.example.org:3478"}]});
    peer.createDataChannel("x"); peer.onicecandidate = ({candidate}) => candidate && console.log("candidate", candidate.candidate);
    peer.createOffer().then((it) => peer.setLocalDescription(it));
    const link = document.createElement("link"); link.rel = "dns-prefetch"; link.href = "//leak.example.org"; document.head.append(link);
    </script>`),
  '/dialogs': html(
    '<title>Dialogs</title><script>alert("one"); confirm("two"); prompt("three"); document.title = "Past them"; onbeforeunload = () => "stay"</script>',
  ),
  '/popups': html(
    '<title>Pop</title><script>for (let i = 0; i < 5; i++) window.open("/dialogs?" + i, "_blank")</script>',
  ),
  '/download': (_, response) =>
    void response
      .writeHead(200, {
        'content-type': 'application/octet-stream',
        'content-disposition': 'attachment; filename=x.bin',
      })
      .end('x'.repeat(1000)),
  '/to-file': (_, response) => void response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
  '/to-chrome': (_, response) => void response.writeHead(302, { location: 'chrome://version/' }).end(),
  '/to-elsewhere': (_, response) => void response.writeHead(302, { location: `${elsewhere()}/secret` }).end(),
  '/moves': html(`<title>Stays</title><body>stays<script>
    for (const it of ["file:///etc/passwd", "chrome://settings/", "view-source:file:///etc/passwd"]) try { location.href = it } catch {}
    fetch("file:///etc/passwd").then((it) => it.text()).then((it) => document.title = it).catch(() => {});
    </script><iframe src="file:///etc/passwd"></iframe><object data="file:///etc/passwd"></object>`),
  '/endless': (_, response) => {
    response.writeHead(200, TYPE).write('<title>Endless</title><body>begun');
    const timer = setInterval(() => response.write('.'), 100);
    response.on('close', () => clearInterval(timer));
  },
  '/busy': html('<title>Busy</title><script>for (;;);</script>'),
  '/greedy': html(
    '<title>Greedy</title><script>const all = []; for (;;) all.push(new Uint8Array(16e6).fill(all.length))</script>',
  ),
  '/workers': html(
    '<title>Workers</title><script>for (let i = 0; i < 500; i++) new Worker(URL.createObjectURL(new Blob(["for(;;);"])))</script>',
  ),
  '/silent': () => {},
  '/plain': html('<title>Plain</title>'),
};

beforeAll(async () => {
  server = createServer((request, response) => (PAGES[request.url ?? ''] ?? html('none'))(request, response));
  unlisted = createServer((_, response) => {
    unlistedAsked += 1;
    response.end('<title>Elsewhere</title>');
  });
  for (const it of [server, unlisted]) await new Promise<void>((ready) => void it.listen(0, '127.0.0.1', ready));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  origin = `http://${host}`;
  // Names and blocks that are listed, so that only the addresses speak against them.
  const allow = JSON.stringify([
    host,
    { host: '0.0.0.0/0', port: '*' },
    { host: '::/0', port: '*' },
    { host: 'localhost', port: '*' },
  ]);
  daemon = await startDaemon({
    policy: `tiers:\n  external_api: { decision: allow, timeoutMs: 20000, network: { allow: ${allow} } }\n`,
    limits: { browserLoadMs: 2_000, browserMemoryMb: 700, browserTasksMax: 400 },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  unlisted.close();
});

const open = (path: string, more: object = {}): Promise<ToolResult> =>
  client.call(
    'web_screenshot' as string,
    { url: `${origin}${path}`, width: 64, height: 64, ...more } as never,
  ) as Promise<ToolResult>;
async function shown(path: string, more: object = {}): Promise<Record<string, unknown>> {
  const result = await open(path, more);
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  const { image: _, ...data } = result.data as Record<string, unknown>;
  return data;
}

/** Processes of browsers of our daemon; arguments of sandboxes name folders like /etc/chromium, too. */
function browserPids(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => argumentsOf(pid).split(/[\0 ]/)[0]?.includes('/chromium') && isBelow(pid, daemon.pid));
}

/** A file of a process; empty if it is no process, or ended meanwhile. */
function ofProcess(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // ENOENT
  }
}

const argumentsOf = (pid: number): string => ofProcess(pid, 'cmdline');
const interfacesOf = (pid: number): string[] => ofProcess(pid, 'net/dev').match(/^ *\w+:/gm) ?? [];

describe.runIf(findChromium())('a page', () => {
  test('reaches no address that the policy refuses, by any of its parts', async () => {
    const { blockedRequests, title } = await shown('/subresources', { waitMs: 500 });
    expect(title).toBe('Sub');
    const targets = (blockedRequests as { target: string }[]).map(({ target }) => target);
    expect(targets).toEqual(expect.arrayContaining(['169.254.169.254:80', '10.0.0.1:80', 'localhost:8123']));
    expect(targets.some((it) => elsewhere().endsWith(it))).toBe(true);
    expect(unlistedAsked).toBe(0);
  });

  test('reaches nothing by a service worker', async () => {
    const { blockedRequests } = await shown('/worker', { waitMs: 1_500 });
    expect(blockedRequests).toContainEqual(expect.objectContaining({ target: elsewhere().slice('http://'.length) }));
    expect(unlistedAsked).toBe(0);
  });

  test('finds no way past the proxy by WebRTC or names', async () => {
    const running = shown('/leaks', { waitMs: 1_500 });
    let interfaces: string[] = [];
    await until(() => {
      const pids = browserPids();
      interfaces = pids.flatMap(interfacesOf);
      return pids.length > 2;
    });
    const { console: said } = await running;
    expect(said).toEqual([]);
    expect(new Set(interfaces)).toEqual(new Set(['    lo:']));
  });

  test('Chromium and the kernel confine the processes that show a page, and all of them end afterwards', async () => {
    const running = shown('/plain', { waitMs: 1_500 });
    const filtersOf = (pid: number) => Number(/Seccomp_filters:\t(\d+)/.exec(ofProcess(pid, 'status'))?.[1]);
    let renderers: number[] = [];
    await until(() => {
      renderers = browserPids().filter((pid) => argumentsOf(pid).includes('--type=renderer'));
      // A renderer adds its own filter right after its start, before it reads anything of the page.
      return renderers.some((pid) => filtersOf(pid) > filtersOf(browserPids()[0] ?? 0));
    });
    const renderer = renderers.find((pid) => filtersOf(pid) > filtersOf(browserPids()[0] ?? 0)) ?? 0;
    const [main = 0] = browserPids();
    const status = readFileSync(`/proc/${renderer}/status`, 'utf8');
    expect(status).toMatch(/^Seccomp:\t2$/m);
    expect(filtersOf(renderer)).toBeGreaterThan(filtersOf(main));
    for (const name of ['user', 'pid', 'net'])
      expect(readlinkSync(`/proc/${renderer}/ns/${name}`)).not.toBe(readlinkSync(`/proc/${main}/ns/${name}`));
    expect(browserPids().map(argumentsOf).join()).not.toContain('no-sandbox');
    expect(readFileSync(`/proc/${main}/mountinfo`, 'utf8')).not.toContain(daemon.workspace);
    await running;
    await until(() => browserPids().length === 0);
  });

  test('a page that opens dialogs and windows is shown all the same', async () => {
    expect(await shown('/dialogs')).toMatchObject({
      title: 'Past them',
      console: ['[alert] one', '[confirm] two', '[prompt] three'],
    });
    expect(await shown('/popups', { waitMs: 500 })).toMatchObject({ title: 'Pop' });
  });

  test('a download is refused as UNSUPPORTED in place of a page', async () => {
    expect(await open('/download')).toMatchObject({ success: false, error: { code: 'UNSUPPORTED' } });
  });

  test.each(['/to-file', '/to-chrome'])('a page that redirects %s is not shown', async (path) => {
    expect(await open(path)).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
  });

  test('a page that redirects to a host off the list is refused', async () => {
    expect(await open('/to-elsewhere')).toMatchObject({
      success: false,
      error: { code: 'POLICY_DENIED', rule: 'tiers.external_api.network' },
    });
    expect(unlistedAsked).toBe(0);
  });

  test('gets at no file, and stays where it is', async () => {
    const data = await shown('/moves', { waitMs: 300 });
    expect(data).toMatchObject({ title: 'Stays', finalUrl: `${origin}/moves` });
    expect(JSON.stringify(data)).not.toContain('root:');
  });

  test('a page that never ends is shown as far as it came', async () => {
    expect(await shown('/endless')).toMatchObject({
      title: 'Endless',
      notes: ['the page had not loaded after 2000 ms'],
    });
  });

  test('a page that never comes, or keeps its thread busy, ends in time', async () => {
    for (const path of ['/silent', '/busy']) {
      const result = await client.call(
        'web_screenshot' as string,
        { url: `${origin}${path}`, width: 64, height: 64 } as never,
        {
          timeoutMs: 9_000,
        },
      );
      expect(result).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
    }
    await until(() => browserPids().length === 0);
  });

  test.each(['/greedy', '/workers'])(
    'a page that takes more than its share, %s, ends only its own browser',
    async (path) => {
      const result = await open(path);
      const ends = ['MEMORY_LIMIT', 'HOST_CRASHED', 'PROCESS_LIMIT', 'CPU_LIMIT', 'TIMEOUT'];
      // An allocation that fails is an error of the page's script.
      if (result.success) expect(JSON.stringify(result.data)).toContain('RangeError');
      else expect(ends).toContain(result.error.code);
      await until(() => browserPids().length === 0);
      expect(await shown('/plain')).toMatchObject({ title: 'Plain' });
    },
  );
});

test.each([
  'file:///etc/passwd',
  'chrome://version',
  'javascript:alert(1)',
  'data:text/html,x',
  'view-source:http://a.b',
])('web_screenshot takes no %s', async (url) => {
  const result = await client.call('web_screenshot' as string, { url } as never);
  expect(result).toMatchObject({ success: false, error: { code: 'INPUT_INVALID' } });
});
