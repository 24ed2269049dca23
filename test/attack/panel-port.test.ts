/** The port of the panel after its daemon has ended: whoever listens there next learns nothing from a page that is still open. */
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { byChromium, chromiumPath, openPanel, panelUrl, startBrowser } from '../support/browser.ts';
import { startDaemon, until } from '../support/daemon.ts';

let browser: Awaited<ReturnType<typeof startBrowser>>;
beforeAll(async () => {
  if (chromiumPath) browser = await startBrowser();
});
afterAll(() => browser?.close());

test.skipIf(!chromiumPath)(
  `a page whose daemon has ended tells a stranger at its port nothing that opens a session (${byChromium})`,
  async () => {
    const heard: { readonly url: string; readonly body: string }[] = [];
    const stranger = createServer(async (request: IncomingMessage, response) => {
      heard.push({ url: `${request.method} ${request.url}`, body: await text(request) });
      const fake = JSON.stringify({ nonce: '0'.repeat(64), proof: '0'.repeat(64), page: 'p_000000000000' });
      response.writeHead(200, { 'content-type': 'application/json' }).end(fake);
    });
    let url: URL;
    const context = await browser.newContext();
    const page = await (async () => {
      await using daemon = await startDaemon();
      await using operator = await daemon.connect({ role: 'operator' });
      url = new URL(await panelUrl(operator));
      return await openPanel(context, operator, []);
    })();
    const kept = await page.evaluate(() => sessionStorage.getItem('ringfence.page') ?? '');
    expect(kept).toContain('key');
    await new Promise<void>((resolve) => stranger.listen(Number(url.port), '127.0.0.1', resolve));
    await until(() => heard.some((it) => it.url === 'POST /session'));
    await until(async () => (await page.evaluate(() => sessionStorage.length)) === 0);
    const { key } = JSON.parse(kept) as { key: string };
    for (const { url: asked, body } of heard) {
      expect(asked).toBe('POST /session');
      expect(Object.keys(JSON.parse(body) as object)).toEqual(['id', 'nonce']);
      expect(body).not.toContain(key);
    }
    await context.close();
    await new Promise((done) => stranger.close(done));
  },
);

test('pages are signed out when their daemon ends, and the next one has another origin', async () => {
  await using first = await startDaemon();
  const { stateDir, workspace } = first;
  const urlOf = async (daemon: typeof first) => {
    await using operator = await daemon.connect({ role: 'operator' });
    return new URL(await panelUrl(operator)).hostname;
  };
  const before = await urlOf(first);
  process.kill(first.pid, 'SIGKILL');
  await first.ended;
  await using next = await startDaemon({ stateDir, workspace });
  expect(await urlOf(next)).not.toBe(before);
});
