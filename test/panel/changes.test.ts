/** The panel's views of what changed and of agents, in a real Chromium, with the ways back. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { createClient } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

describe.skipIf(chromiumPath === undefined)(`changes and agents in the panel (${byChromium})`, () => {
  let daemon: OpenDaemon;
  let operator: Client;
  let agent: Client;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];
  const at = (path: string) => join(daemon.workspace, path);

  beforeAll(async () => {
    [daemon, browser] = await Promise.all([openDaemon(), startBrowser()]);
    operator = await daemon.connect({ role: 'operator' });
    agent = await createClient({
      socket: daemon.socket,
      workspace: daemon.workspace,
      name: 'claude-code',
      version: '2',
    });
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
  const files = (group: string) => page.getByRole('list', { name: group }).getByRole('button');

  test('without a change the view says what comes there, and without an agent how to connect one', async () => {
    await go('Changes');
    await page.getByText('No call that is still kept has changed a file.').waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test('files that tools run and that agents obey stand first, each with its diff, who changed it and undo', async () => {
    writeFileSync(at('package.json'), '{"scripts":{"test":"vitest run"}}\n');
    writeFileSync(at('AGENTS.md'), 'Be kind.\n');
    await agent.request('checkpoints.name', { name: 'before' });
    const operations = [{ type: 'replace' as const, search: 'kind', replace: 'quick' }];
    await agent.call('file_edit', { path: 'AGENTS.md', operations });
    await agent.call('file_write', { path: 'src/cart.ts', content: 'export {};\n' });
    await agent.call('terminal_execute', { command: "sed -i 's/run/run \\&\\& node r.mjs/' package.json" });
    await go('Changes');
    await files('Your tools run these').filter({ hasText: 'package.json' }).waitFor();
    expect(await files('Agents obey these').allTextContents()).toEqual(['MAGENTS.md']);
    expect(await files('All other').allTextContents()).toEqual(['Asrc/cart.ts']);
    await page.getByText('by sed -i').first().waitFor();
    await files('All other').first().click();
    await page.getByLabel('Text that was written').getByText('export {};').waitFor();
    await files('Agents obey these').first().click();
    await page.locator('.diff .add').first().waitFor();
    expect(await page.locator('.diff .del').allTextContents()).toContain('-Be kind.\n');
    expect(await page.locator('.read header').textContent()).toContain('claude-code');
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.keyboard.press('u');
    await page.getByText('Undone: AGENTS.md').waitFor();
    expect(readFileSync(at('AGENTS.md'), 'utf8')).toBe('Be kind.\n');
  });

  test('a workspace goes back to a checkpoint, by two clicks that name what is undone', async () => {
    await go('Changes');
    const select = page.getByLabel('Back to a checkpoint');
    await until(async () => (await select.locator('option').count()) > 1);
    await select.selectOption({ index: 1 });
    await page.getByRole('button', { name: /^Undo \d calls since before$/ }).click();
    await page.getByText(/^Undid \d calls\.$/).waitFor();
    expect(existsSync(at('src/cart.ts'))).toBe(false);
    expect(readFileSync(at('package.json'), 'utf8')).toBe('{"scripts":{"test":"vitest run"}}\n');
  });

  test('an agent stands with what it does now and what it asks, and holding the button ends its calls', async () => {
    const called = agent.call('terminal_execute', { command: 'sleep 60' });
    await go('Agents');
    const row = page.getByRole('region', { name: 'Connected' }).locator('tbody tr').filter({ hasText: 'claude-code' });
    await row.getByText('sleep 60').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await row.getByRole('button', { name: 'Hold to end its calls' }).click({ delay: 1_300 });
    expect(await called).toMatchObject({ error: { code: 'CANCELLED' } });
    await page.getByText('Ended 1 calls of claude-code.').waitFor();
    await row.getByText(/^idle \d+ s$/).waitFor();
  });

  test('one agent is paused and resumed by the button on its line', async () => {
    await go('Agents');
    const row = page.getByRole('region', { name: 'Connected' }).locator('tbody tr').filter({ hasText: 'claude-code' });
    await row.getByRole('button', { name: 'Pause claude-code' }).click();
    await row.getByText('‖ paused').waitFor();
    const called = agent.call('terminal_execute', { command: 'echo late' });
    await row.getByText('echo late').waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await row.getByRole('button', { name: 'Resume claude-code' }).click();
    expect(await called).toMatchObject({ success: true });
    await row.getByText('‖ paused').waitFor({ state: 'hidden' });
  });

  test('the dot pauses all calls and lets them begin again, and the question mark shows all keys', async () => {
    await page.keyboard.press('.');
    await page.getByText(/^Paused by panel:p_.*: no call begins\./).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.keyboard.press('.');
    await page.getByText(/no call begins/).waitFor({ state: 'hidden' });
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });
});
