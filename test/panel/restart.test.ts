/** An open panel whose daemon ends: the page names the command that opens the next one, which has another address. */
import { describe, expect, test } from 'vitest';
import { byChromium, chromiumPath, openPanel, panelUrl, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

describe.skipIf(chromiumPath === undefined)(`the panel over a restart of the daemon (${byChromium})`, () => {
  test('an open page names the command that opens the panel of a restarted daemon', { timeout: 90_000 }, async () => {
    await using first = await startDaemon();
    const { stateDir, workspace } = first;
    const browser = await startBrowser();
    try {
      const operator = await first.connect({ role: 'operator' });
      const page = await openPanel(browser, operator, []);
      const before = new URL(page.url());
      await operator[Symbol.asyncDispose]();
      process.kill(first.pid, 'SIGKILL');
      await first.ended;
      const note = page.getByRole('complementary', { name: 'Notes' });
      await note.getByText('A daemon that was restarted has a new address: ringfence panel').waitFor();
      await note.getByRole('button', { name: 'Copy ringfence panel' }).waitFor();
      // The restarted daemon listens at the same port by another name, and does not know the page.
      await using next = await startDaemon({ stateDir, workspace });
      await using again = await next.connect({ role: 'operator' });
      const { url } = (await again.request('panel.open', { port: Number(before.port) })) as { url: string };
      expect(new URL(url).hostname).not.toBe(before.hostname);
      await page.getByRole('heading', { name: 'This page is not signed in' }).waitFor();
      await page.getByText('has ended or was restarted').waitFor();
      await page.goto(await panelUrl(again));
      await page.getByText('connected', { exact: true }).waitFor();
    } finally {
      await browser.close();
    }
  });
});
