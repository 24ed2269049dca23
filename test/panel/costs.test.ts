/** The panel's view of costs in a real Chromium, of payments at a service that plays what a real one answers. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { type Service, startService } from '../support/service.ts';

const POLICY = 'tiers:\n  external_api: { decision: allow, costUsdPerDay: 1000, costUsdAskAbove: 500 }\n';

describe.skipIf(chromiumPath === undefined)(`costs in the panel (${byChromium})`, () => {
  let service: Service;
  let daemon: OpenDaemon;
  let operator: Client;
  let browser: Browser;

  beforeAll(async () => {
    [service, daemon, browser] = await Promise.all([startService(), openDaemon({ policy: POLICY }), startBrowser()]);
    operator = await daemon.connect({ role: 'operator' });
    // A payment asks in any case.
    await operator.onApproval(() => ({ decision: 'approve' }));
    const cli = (args: string[], stdin = '') => runCli(daemon, args, { stdin });
    const added = await cli(['connector', 'add', 'stripe', '--base', service.base, '--ca', service.ca, '--private']);
    expect(added.code).toBe(0);
    expect(await cli(['secret', 'set', 'stripe_key'], 'a-key-of-nobody')).toMatchObject({ code: 0 });
    await until(async () => {
      const { connectors } = (await operator.request('status', {})) as { connectors: { auth: string }[] };
      return connectors.some(({ auth }) => auth !== 'missing');
    });
  });
  afterAll(async () => {
    await browser?.close();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await service?.[Symbol.asyncDispose]();
  });

  test('costs of calls are plotted by day, and listed by tool beside the limits', async () => {
    await using agent = await daemon.connect();
    service.play({ body: { id: 'pi_1', client_secret: 's', status: 'x' } });
    expect(await agent.call('stripe__create_payment', { amount: 250, currency: 'usd' })).toMatchObject({
      success: true,
    });
    const complaints: string[] = [];
    const page = await openPanel(browser, operator, complaints);
    await page.getByRole('link', { name: 'Costs' }).click();
    const plot = page.locator('.plot').filter({ hasText: 'Cost a day' });
    await plot.waitFor();
    const { today } = (await operator.request('costs.read', {})) as { today: { usd: number }[] };
    const usd = `$${today[0]?.usd.toFixed(2)}`;
    expect(await plot.locator('svg').getAttribute('aria-label')).toBe(
      `Cost a day, the newest: cost ${usd}; at most ${usd}`,
    );
    const row = page.getByRole('region', { name: 'Costs by tool and principal' }).locator('tbody tr');
    expect(await row.textContent()).toContain('stripe__create_payment');
    await page.getByText(`external_api today: ${usd}, asks above $500.00, at most $1000.00`).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  });
});
