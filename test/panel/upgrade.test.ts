/** An open panel over an upgrade of the daemon: the same page goes on, at the same address, without signing in again. */
import { describe, expect, test } from 'vitest';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { runCli } from '../support/cli.ts';
import { upgradable } from '../support/upgrade.ts';

describe.skipIf(chromiumPath === undefined)(`the panel over an upgrade (${byChromium})`, () => {
  test('an open page connects to the new daemon by itself, and shows its calls', { timeout: 90_000 }, async () => {
    await using daemon = await upgradable();
    const browser = await startBrowser();
    try {
      const operator = await daemon.connect({ role: 'operator' });
      const page = await openPanel(browser, operator, []);
      const { host } = new URL(page.url());
      await operator[Symbol.asyncDispose]();
      expect(await runCli(daemon, ['upgrade', '--json'])).toMatchObject({ code: 0 });
      await page.getByText('The daemon does not answer').waitFor({ state: 'hidden' });
      await page.getByText('connected', { exact: true }).waitFor();
      await using agent = await daemon.connect();
      await agent.call('file_list', {});
      await page.getByRole('link', { name: 'Calls' }).click();
      await page.locator('.row').filter({ hasText: 'file_list' }).waitFor();
      expect(new URL(page.url()).host).toBe(host);
    } finally {
      await browser.close();
    }
  });
});
