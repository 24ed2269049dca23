/** The panel's views of calls and of the machine in a real Chromium: live, undoable, stoppable, and text stays text. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';

describe.skipIf(chromiumPath === undefined)(`calls and machine in the panel (${byChromium})`, () => {
  let daemon: OpenDaemon;
  let operator: Client;
  let agent: Client;
  let browser: Browser;
  let page: Page;
  const other = temporaryDir('ws');
  const complaints: string[] = [];

  beforeAll(async () => {
    [daemon, browser] = await Promise.all([openDaemon({ args: ['--workspace', other] }), startBrowser()]);
    operator = await daemon.connect({ role: 'operator' });
    agent = await daemon.connect();
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
  const show = (callId: string) =>
    page.evaluate((id) => {
      location.hash = `#/calls/${id}`;
    }, callId);
  const rows = () => page.locator('.row');
  const chip = (name: string) => page.locator('.filters').getByRole('button', { name, exact: true });

  test('a call is in the list while it runs, and its row tells how it ended and where its time went', async () => {
    await go('Calls');
    const called = agent.call('terminal_execute', { command: 'sleep 1; exit 3' });
    const row = rows().filter({ hasText: 'sleep 1; exit 3' });
    await row.filter({ hasText: 'running' }).waitFor();
    await called;
    await row.filter({ hasText: 'exit 3' }).waitFor();
    const times = async () => (await row.locator('svg title').textContent()) ?? '';
    await until(async () => /judged .*starting .*running [1-9][\d.]* s/.test(await times()));
  });

  test('the list is filtered by text, state and tier', async () => {
    await agent.call('file_read', { path: 'is-not-there' });
    await agent.call('file_list', {});
    await go('Calls');
    await rows().filter({ hasText: 'is-not-there' }).first().waitFor();
    await page.getByLabel('Search').fill('is-not-there');
    await until(async () => (await rows().count()) === 1);
    await chip('done').click();
    await page.getByText('No call is like that.').waitFor();
    await chip('failed').click();
    expect(await rows().locator('.state').textContent()).toBe('NOT_FOUND');
    await page.getByLabel('Tier').selectOption('execute');
    await page.getByText('No call is like that.').waitFor();
    await page.getByLabel('Tier').selectOption('');
    await page.locator('form label').filter({ hasText: /^Tool/ }).locator('select').selectOption('file_list');
    await page.getByText('No call is like that.').waitFor();
    await page.getByLabel('Search').fill('');
    await chip('all').click();
    await rows().first().waitFor();
    expect(new Set(await rows().locator('.tool').allTextContents())).toEqual(new Set(['file_list']));
    await page.locator('form label').filter({ hasText: /^Tool/ }).locator('select').selectOption('');
  });

  test('two calls with one id are shown and undone each with its session', async () => {
    await using other = await daemon.connect();
    await agent.call('file_write', { path: 'mine.txt', content: 'mine' }, { callId: 'same' });
    await other.call('file_write', { path: 'other.txt', content: 'other' }, { callId: 'same' });
    await go('Calls');
    await rows().filter({ hasText: 'mine.txt' }).click();
    await page.getByText('mine.txt').first().waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('button', { name: 'Redo' }).waitFor();
    expect([existsSync(join(daemon.workspace, 'mine.txt')), existsSync(join(daemon.workspace, 'other.txt'))]).toEqual([
      false,
      true,
    ]);
    expect(await page.locator('main').textContent()).not.toContain('other.txt');
  });

  test('the resources that a call used stand beside its limits', async () => {
    const { callId } = await agent.call('terminal_execute', { command: 'true' });
    await show(callId);
    await page
      .locator('.resources')
      .getByText(/of at most [\d.]+ (s|min|h),/)
      .waitFor();
  });

  test('a call with the id %, which no address can hold as it is, is shown', async () => {
    await agent.call('terminal_execute', { command: 'echo percent' }, { callId: '%' });
    await show('%');
    await page.locator('.output pre').getByText('percent').waitFor();
    await go('Calls');
    await rows().filter({ hasText: 'echo percent' }).click();
    await page.locator('.output pre').getByText('percent').waitFor();
    expect(await page.evaluate(() => location.hash)).toContain('#/calls/%25');
  });

  test('output with escape sequences and markup is coloured text, and nothing else', async () => {
    const script = String.raw`printf '\033[31mred\033[0m \033]8;;http://evil.example\007link\033]8;;\007 \033[2J\033[Hend <img src=x onerror=alert(1)><b>no</b>\n'`;
    const { callId } = await agent.call('terminal_execute', { command: script });
    await show(callId);
    const output = page.locator('.output pre');
    await output.getByText('red').waitFor();
    expect(await output.textContent()).toBe('red link end <img src=x onerror=alert(1)><b>no</b>\n');
    expect(await output.locator('.c1').textContent()).toBe('red');
    expect(await output.locator('img, b, a').count()).toBe(0);
  });

  test('output comes while the call runs, and the call can be cancelled', async () => {
    const called = agent.call('terminal_execute', { command: 'echo begun; sleep 60' });
    await go('Calls');
    await rows().filter({ hasText: 'echo begun' }).click();
    await page.locator('.output').getByText('begun').waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(await called).toMatchObject({ error: { code: 'CANCELLED' } });
    await page.getByRole('heading', { name: 'CANCELLED' }).waitFor();
  });

  test('a change is taken back, done again and taken back, in any workspace', async () => {
    await using elsewhere = await daemon.connect({ workspace: other });
    const file = join(other, 'notes.txt');
    writeFileSync(file, 'before\n');
    const { callId } = await elsewhere.call('file_write', { path: 'notes.txt', content: 'after\n' });
    await go('Calls');
    await rows().filter({ hasText: 'notes.txt' }).first().waitFor();
    await show(callId);
    await page.getByRole('button', { name: 'Undo u', exact: true }).click();
    await page.getByText('Undone: notes.txt').waitFor();
    expect(readFileSync(file, 'utf8')).toBe('before\n');
    await page.getByRole('button', { name: 'Redo u', exact: true }).click();
    await page.getByText('Done again: notes.txt').waitFor();
    expect(readFileSync(file, 'utf8')).toBe('after\n');
    await page.getByRole('button', { name: 'Undo u', exact: true }).click();
    await until(() => readFileSync(file, 'utf8') === 'before\n');
  });

  test('a change that was changed again is not lost: the conflict is told, and force is another button', async () => {
    const file = join(daemon.workspace, 'twice.txt');
    writeFileSync(file, 'one\n');
    const { callId } = await agent.call('file_write', { path: 'twice.txt', content: 'two\n' });
    writeFileSync(file, 'by a person\n');
    await show(callId);
    await page.getByRole('button', { name: 'Undo u', exact: true }).click();
    await page.getByText('Changed since: twice.txt').waitFor();
    expect(readFileSync(file, 'utf8')).toBe('by a person\n');
    await page.getByRole('button', { name: 'Undo all the same' }).click();
    await until(() => readFileSync(file, 'utf8') === 'one\n');
  });

  test('holding the button for a second stops all calls, a shorter press does not, and resuming lets calls begin', async () => {
    const called = agent.call('terminal_execute', { command: 'sleep 60' });
    await until(async () => {
      const { calls } = (await operator.request('calls.list', { everywhere: true })) as { calls: object[] };
      return calls.length > 0;
    });
    await go('Stop');
    const button = page.getByRole('button', { name: 'Hold for a second' });
    await button.click();
    await page.waitForTimeout(1_200);
    expect(await page.getByText('Calls run as the policy says.').count()).toBe(1);
    await button.click({ delay: 1_300 });
    await page.getByText(/^Ended 1 calls/).waitFor();
    expect(await called).toMatchObject({ error: { code: 'CANCELLED' } });
    await page.getByText(/^Paused since .* by panel:p_/).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    const waiting = agent.call('file_write', { path: 'later', content: '' });
    await page.locator('main').getByRole('button', { name: 'Resume' }).click();
    expect(await waiting).toMatchObject({ success: true });
    expect(existsSync(join(daemon.workspace, 'later'))).toBe(true);
  });

  test('sub-agents stand below the session that passed its authority on, and limits are shown', async () => {
    const attenuated = await agent.request('sessions.attenuate', { expiresIn: 60_000, tools: ['file_*'] });
    const { token } = attenuated as { token: string };
    await using _ = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
    await go('Machine');
    const sessions = page.getByRole('region', { name: 'Sessions' }).locator('tbody tr');
    await sessions.filter({ hasText: '└ sub-agent' }).waitFor();
    expect(await sessions.filter({ hasText: '└ sub-agent' }).count()).toBe(1);
    const limits = page.getByRole('region', { name: 'Limits of a call' });
    await limits.getByRole('cell', { name: 'execute' }).waitFor();
    expect(await limits.textContent()).toMatch(/\d+(\.\d+)? (MiB|s|min)/);
  });

  test('calls a second, their times and the memory are plotted while the view is open', async () => {
    await go('Machine');
    const plot = (title: string) => page.locator('.plot').filter({ hasText: title });
    const labelOf = (title: string) => plot(title).locator('svg').getAttribute('aria-label');
    await plot('Calls a second').waitFor();
    await until(async () => {
      await agent.call('file_list', {});
      return /the newest: calls (0\.[1-9]|[1-9])/.test((await labelOf('Calls a second')) ?? '');
    });
    expect(await labelOf('Time of a call')).toMatch(/p50 [\d.]+ m?s, p99 [\d.]+ m?s/);
    expect(await labelOf('Memory')).toMatch(/gateway [\d.]+ MiB, hosts [\d.]+ MiB/);
    expect(await violationsOf(page)).toEqual([]);
  });

  test('the machine is shown with its sessions and hosts', async () => {
    await go('Machine');
    await page.getByRole('heading', { name: 'Hosts' }).waitFor();
    expect(await page.locator('main').textContent()).toContain('ringfence-panel');
    expect(await page.getByRole('region', { name: 'Sessions' }).locator('tbody tr').count()).toBeGreaterThanOrEqual(3);
  });

  test.each(['Calls', 'Machine', 'Stop'])('the view %s breaks no rule of accessibility', async (view) => {
    await agent.call('file_list', {});
    await go(view);
    await page.getByRole('heading', { name: view, level: 1 }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  });

  test('a call breaks no rule of accessibility', async () => {
    const { callId } = await agent.call('terminal_execute', { command: String.raw`printf '\033[32mgreen\033[0m\n'` });
    await show(callId);
    await page.locator('.output').waitFor();
    await page.getByRole('heading', { name: 'Resources' }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });
});
