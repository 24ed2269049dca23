/** The panel's views of the record, the policy and the costs in a real Chromium. */
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const POLICY = `extends: default
rules:
  - { id: no-push, match: { command: [git, push] }, decision: deny, reason: Only people push. }
`;

describe.skipIf(chromiumPath === undefined)(`record, policy and costs in the panel (${byChromium})`, () => {
  let daemon: OpenDaemon;
  let operator: Client;
  let agent: Client;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    [daemon, browser] = await Promise.all([openDaemon({ policy: POLICY }), startBrowser()]);
    operator = await daemon.connect({ role: 'operator' });
    agent = await daemon.connect();
    await agent.call('file_write', { path: 'findable.txt', content: '' });
    await agent.call('file_read', { path: 'missing.txt' });
  });
  afterAll(async () => {
    await browser?.close();
    await agent?.[Symbol.asyncDispose]();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    page = await openPanel(browser, operator, complaints);
  });
  afterEach(async () => {
    await page.close();
    expect(complaints.splice(0)).toEqual([]);
  });

  const go = (view: string) => page.getByRole('navigation').getByRole('link', { name: view }).click();
  const entries = () => page.locator('.entries > li');

  test('the record is searched for a text and a failure, and an entry shows all that it has', async () => {
    await go('Audit');
    await page.getByLabel('Text').fill('findable.txt');
    await page.getByRole('button', { name: 'Search' }).click();
    await until(async () => (await entries().filter({ hasText: 'file_read' }).count()) === 0);
    // Calls come first; behind each stand its entries.
    await entries().filter({ hasText: 'done' }).first().waitFor();
    await entries().first().getByRole('button').click();
    expect((await page.locator('.entries pre').allTextContents()).join()).toMatch(
      /findable\.txt.*"intent"|"intent".*findable\.txt/s,
    );
    await page.getByRole('button', { name: 'all entries' }).click();
    await entries().filter({ hasText: 'intent' }).waitFor();
    await page.getByRole('button', { name: 'calls', exact: true }).click();
    await entries().filter({ hasText: 'done' }).first().waitFor();
    await page.getByLabel('Text').fill('');
    await page.locator('select[name=outcome]').selectOption('failure');
    await page.getByRole('button', { name: 'Search' }).click();
    await until(async () => (await entries().filter({ hasText: 'file_write' }).count()) === 0);
    await entries().filter({ hasText: 'NOT_FOUND' }).waitFor();
  });

  test('the record is verified, and taken along as lines of JSON', async () => {
    await go('Audit');
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByText(/^The record is whole: \d+ entries\.$/).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export' }).click(),
    ]);
    const lines = readFileSync(await download.path(), 'utf8')
      .trim()
      .split('\n');
    expect(lines.map((it) => (JSON.parse(it) as { kind: string }).kind)).toContain('intent');
  });

  test('a call is explained with the rule that decides and where that stands', async () => {
    await go('Policy');
    await page.getByRole('button', { name: 'Explain' }).click();
    const explained = page.locator('main output').first();
    await explained.locator('code').getByText('no-push').waitFor();
    expect(await explained.textContent()).toMatch(/^deny.*no-push Only people push\. .*policy\.yaml:3/);
    await page.getByLabel('Input, as JSON').fill('{"command": "ls"}');
    await page.getByRole('button', { name: 'Explain' }).click();
    await explained.getByText('allow', { exact: true }).first().waitFor();
    await page.getByLabel('Input, as JSON').fill('no JSON');
    await page.getByRole('button', { name: 'Explain' }).click();
    await explained.getByText('The input is not JSON.').waitFor();
  });

  test('the rules in force are listed, each with its reason and its text', async () => {
    await go('Policy');
    const rule = entries().filter({ hasText: 'Only people push.' });
    await rule.locator('summary').click();
    expect(await rule.locator('pre').textContent()).toContain('"decision": "deny"');
  });

  test('a changed policy is tried against the calls on record, and one that is wrong says where', async () => {
    await go('Policy');
    const text = page.getByLabel('Text of the policy file');
    const backtest = () => page.getByRole('button', { name: 'Back-test' }).click();
    await text.fill(
      'extends: default\nrules:\n  - { id: no-find, match: { write: "findable*" }, decision: deny, reason: No. }\n',
    );
    await backtest();
    await page.getByText(/^1 of \d+ calls would have been decided otherwise\.$/).waitFor();
    const row = page.getByRole('region', { name: 'Calls that would be decided otherwise' }).locator('tbody tr');
    expect(await row.textContent()).toMatch(/^file_write(allow|ask)deny.*findable\.txt.*no-find/);
    await page
      .getByLabel('or its file')
      .setInputFiles({ name: 'p.yaml', mimeType: 'text/yaml', buffer: Buffer.from(POLICY) });
    await until(async () => (await text.inputValue()) === POLICY);
    await backtest();
    await page.getByText(/^No call would have been decided otherwise of \d+\.$/).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await text.fill('rules: 3');
    await backtest();
    await page.locator('.tested .failed').first().waitFor();
  });

  test('intents whose outcome never came are found apart', async () => {
    await go('Audit');
    await entries().first().waitFor();
    await page.locator('select[name=outcome]').selectOption('unknown');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByText('0 calls', { exact: true }).waitFor();
  });

  test('without costs the page says so, and calls are counted by day', async () => {
    await go('Costs');
    await page.getByText('No call has cost anything in the last 30 days.').waitFor();
    const plot = page.locator('.plot').filter({ hasText: 'Calls a day' });
    expect(await plot.locator('svg').getAttribute('aria-label')).toMatch(
      /^Calls a day, the newest: succeeded [1-9]\d*, failed 1, refused 0; at most \d+$/,
    );
    // With the keyboard the day before is read.
    await plot.getByRole('slider').focus();
    await page.keyboard.press('ArrowLeft');
    expect(await plot.getByRole('slider').getAttribute('aria-valuetext')).toMatch(/^\d{4}-\d\d-\d\d: succeeded 0,/);
    expect(await page.locator('.plot rect').count()).toBe(120);
  });

  test.each(['Audit', 'Policy', 'Costs'])('the view %s breaks no rule of accessibility', async (view) => {
    await go(view);
    await page.getByRole('heading', { name: view, level: 1 }).waitFor();
    if (view !== 'Costs') await entries().first().waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  });

  test('a tool is switched off after its change was shown, and on again', async () => {
    await go('Policy');
    const write = async (level: string) => {
      await page.getByLabel('This tool').fill('data_validate');
      await page.getByLabel('Level').selectOption(level);
      await page.getByRole('button', { name: 'Show the change' }).click();
      await page.locator('main pre.diff, main .diff').filter({ hasText: 'level-of-data-validate' }).waitFor();
      await page.getByRole('button', { name: 'Write it' }).click();
      await page.getByText(', and in force.').waitFor();
    };
    await write('deny');
    expect(await agent.call('data_validate', { text: '{}' } as never)).toMatchObject({ success: false });
    await write('default');
  });
});
