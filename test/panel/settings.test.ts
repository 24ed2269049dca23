/** The panel's view of workspaces, secrets and settings, in a real Chromium. */
import { mkdirSync, realpathSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { runCli } from '../support/cli.ts';
import { openDaemon, removeTree, temporaryDir } from '../support/daemon.ts';

describe.skipIf(chromiumPath === undefined)(`settings in the panel (${byChromium})`, () => {
  test('settings name where each value comes from and what changes it, and secrets show no value', async () => {
    await using daemon = await openDaemon({ config: { cache: { strategy: 'lfu' } } });
    await using operator = await daemon.connect({ role: 'operator' });
    const folder = realpathSync(temporaryDir('added'));
    mkdirSync(`${folder}/sub`);
    const browser = await startBrowser();
    try {
      expect(await runCli(daemon, ['workspace', 'add', folder])).toMatchObject({ code: 0 });
      const secret = ['secret', 'set', 'registry', '--host', 'api.example.com'];
      expect(await runCli(daemon, secret, { stdin: 'value-of-the-secret' })).toMatchObject({ code: 0 });
      const page = await openPanel(browser, operator, []);
      await page.getByRole('link', { name: 'Settings' }).click();
      const row = (table: string, text: string) =>
        page.getByRole('region', { name: table }).locator('tbody tr').filter({ hasText: text });
      await row('Workspaces', folder).getByText(`ringfence workspace remove ${folder}`).waitFor();
      await row('Workspaces', daemon.workspace).getByText('a flag of serve').waitFor();
      await row('Secrets', 'registry').getByText('api.example.com:443').waitFor();
      const strategy = row('In force', 'cache.strategy');
      await strategy.getByText('lfu').waitFor();
      await strategy.getByText('config.yaml', { exact: true }).waitFor();
      await strategy.getByRole('button', { name: /^Copy \$EDITOR .*config\.yaml && ringfence config check/ }).waitFor();
      expect(await page.content()).not.toContain('value-of-the-secret');
      expect(await violationsOf(page)).toEqual([]);
      await page.setViewportSize({ width: 360, height: 640 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    } finally {
      await browser.close();
      removeTree(folder);
    }
  });

  test('an agent can not read the settings of the daemon', async () => {
    await using daemon = await openDaemon();
    await using agent = await daemon.connect();
    await expect(agent.request('settings.read', {})).rejects.toMatchObject({ code: -32004 });
  });
});
