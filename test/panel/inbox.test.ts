/** The panel's inbox in a real Chromium: what a person sees of a question, and that an answer counts for just that. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { chromiumPath, openPanel, startBrowser, withoutChromium } from '../support/browser.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const POLICY = `extends: default
tiers:
  execute: { decision: ask }
  write: { decision: ask }
`;

describe.skipIf(chromiumPath === undefined)(`the inbox of the panel (${withoutChromium})`, () => {
  let daemon: OpenDaemon;
  let operator: Client;
  let agent: Client;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    [daemon, browser] = await Promise.all([
      openDaemon({ policy: POLICY, limits: { approvalsPerMinute: 1000, approvalsPerMinutePrincipal: 1000 } }),
      startBrowser(),
    ]);
    operator = await daemon.connect({ role: 'operator' });
  });
  afterAll(async () => {
    await browser?.close();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    agent = await daemon.connect();
    page = await openPanel(browser, operator, complaints);
  });
  afterEach(async () => {
    await page.close();
    await agent[Symbol.asyncDispose]();
    expect(complaints.splice(0)).toEqual([]);
  });

  const cards = () => page.locator('article');
  const cardOf = (text: string) => cards().filter({ hasText: text });
  const run = (command: string) => agent.call('terminal_execute', { command });
  const yes = (text: string) => cardOf(text).getByRole('button', { name: /^Approve/ });
  const no = (text: string) => cardOf(text).getByRole('button', { name: /^Deny/ });
  /** Waits until the buttons of a card take an answer. */
  const armed = (text: string) => cardOf(text).locator('.yes:not([aria-disabled=true])').waitFor();

  test('a click approves a question, which goes when the daemon has confirmed it', async () => {
    const called = run('touch one');
    await armed('touch one');
    expect(await page.title()).toBe('(1) Ringfence');
    await yes('touch one').click();
    expect(await called).toMatchObject({ success: true, data: { exitCode: 0 } });
    await page.getByText('Confirmed by the daemon').waitFor();
    expect(await page.locator('.answered li').first().textContent()).toMatch(/^Approved terminal_execute by panel:p_/);
    expect([await cards().count(), await page.title()]).toEqual([0, 'Ringfence']);
  });

  test('the keys y and n answer the question that has the focus, and no other', async () => {
    const [first, second] = [run('touch first'), run('touch second')];
    await armed('touch second');
    await page.keyboard.press('y');
    expect(await cards().count()).toBe(2);
    await cardOf('touch second').focus();
    await page.keyboard.press('n');
    expect(await second).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
    await armed('touch first');
    await cardOf('touch first').focus();
    await page.keyboard.press('y');
    expect(await first).toMatchObject({ success: true });
  });

  test('words of a denial reach the agent, and letters typed into them answer nothing', async () => {
    const called = run('rm -r build');
    await armed('rm -r build');
    await cardOf('rm -r build').getByLabel('Words for the agent').pressSequentially('nobody says yes, only clean');
    expect(await cards().count()).toBe(1);
    await no('rm -r build').click();
    expect(await called).toMatchObject({
      error: { code: 'APPROVAL_DENIED', details: { feedback: 'nobody says yes, only clean' } },
    });
  });

  test('a card takes no answer for a moment after it appears, and again when it has moved', async () => {
    const above = run('touch above');
    const below = run('touch below');
    await cardOf('touch below').waitFor();
    // The page's own clock says how long: the buttons tell when they are armed.
    const waitedMs = await page.evaluate(async () => {
      const buttons = () => [...document.querySelectorAll('article .yes')];
      const isArmed = () => buttons().every((it) => it.getAttribute('aria-disabled') !== 'true');
      const until = async (is: boolean) => {
        while (isArmed() !== is) await new Promise(requestAnimationFrame);
      };
      await until(true);
      const [first] = buttons() as [HTMLElement];
      const moved = new Promise<number>((resolve) => {
        const observer = new MutationObserver(async () => {
          if (buttons().length !== 1) return;
          observer.disconnect();
          const from = performance.now();
          await until(false);
          (buttons()[0] as HTMLElement).click();
          await until(true);
          resolve(performance.now() - from);
        });
        observer.observe(document.body, { childList: true, subtree: true });
      });
      first.click();
      return moved;
    });
    expect(waitedMs).toBeGreaterThan(350);
    expect(await above).toMatchObject({ success: true });
    expect(await cards().count()).toBe(1);
    await no('touch below').click();
    expect(await below).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('a long command is shown to its last character', async () => {
    const command = `touch ${'x/'.repeat(20_000)} && touch the-end-of-it`;
    const called = run(command);
    await armed('the-end-of-it');
    expect(await cards().locator('.command').textContent()).toBe(command);
    await no('the-end-of-it').click();
    await called;
  });

  test('an overwritten file is named first, with the diff and that it can be undone', async () => {
    writeFileSync(join(daemon.workspace, 'notes.txt'), 'old line\n');
    const called = agent.call('file_write', { path: 'notes.txt', content: 'new line\n' });
    await armed('notes.txt');
    const card = cardOf('notes.txt');
    expect(await card.locator('.effects li').first().textContent()).toBe('replaces notes.txt');
    expect(await card.locator('.diff .del').allTextContents()).toContain('-old line\n');
    expect(await card.locator('.diff .add').allTextContents()).toContain('+new line\n');
    expect(await card.locator('.impact').textContent()).toContain('can be undone');
    await yes('notes.txt').click();
    expect(await called).toMatchObject({ success: true });
    expect(readFileSync(join(daemon.workspace, 'notes.txt'), 'utf8')).toBe('new line\n');
  });

  test('an answer to another question than the one that was shown is refused, and the card says so', async () => {
    const lost = run('touch again');
    await armed('touch again');
    // Stands for a change that the page has not heard of yet: the answer names what was shown before.
    await page.evaluate(() => {
      const send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (data) {
        const text = data as string;
        if (!text.includes('approvals.resolve')) return send.call(this, text);
        const message = JSON.parse(text) as { params: { digest: string } };
        message.params.digest = 'sha256 of what was shown before';
        WebSocket.prototype.send = send;
        send.call(this, JSON.stringify(message));
      };
    });
    await yes('touch again').click();
    await page.getByText('The question has changed since it was shown, and nothing was answered.').waitFor();
    expect(await cards().count()).toBe(1);
    await armed('touch again');
    await no('touch again').click();
    expect(await lost).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('an approval for this session is remembered, and the next such call asks nobody', async () => {
    const called = run('touch kept');
    await armed('touch kept');
    await cards().getByLabel('exactly this call').check();
    await yes('touch kept').getByText('for this session').waitFor();
    await yes('touch kept').click();
    expect(await called).toMatchObject({ success: true });
    expect(await run('touch kept')).toMatchObject({ success: true });
    expect(await cards().count()).toBe(0);
  });

  test('remembered answers are listed with what they cover, and a revoked one asks again', async () => {
    const called = run('touch listed');
    await armed('touch listed');
    await cards().getByLabel('exactly this call').check();
    await yes('touch listed').click();
    await called;
    await page.getByRole('link', { name: 'Answers' }).click();
    const row = page.getByRole('region', { name: 'Remembered answers' }).locator('tbody tr').last();
    expect(await row.textContent()).toMatch(/^yesexactly this call of terminal_executein session .*panel:p_.*until /);
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('Revoked: the next such call asks again.').waitFor();
    await page.getByRole('link', { name: 'Inbox' }).click();
    const again = run('touch listed');
    await armed('touch listed');
    await no('touch listed').click();
    expect(await again).toMatchObject({ success: false });
  });

  test('markup in a command stays text', async () => {
    const command = 'touch "<img src=x onerror=document.title=1><script>document.title=1</script>"';
    const called = run(command);
    await armed('onerror');
    expect(await cards().locator('.command').textContent()).toBe(command);
    expect(await page.locator('article img, article script').count()).toBe(0);
    await no('onerror').click();
    await called;
  });

  test('a question that comes while nobody looks is told by a notice, without parameters', async () => {
    await page.context().grantPermissions(['notifications']);
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true });
      const told: string[] = [];
      // Notes what the page shows, and shows it.
      window.Notification = class extends Notification {
        constructor(title: string, options?: NotificationOptions) {
          super(title, options);
          told.push(`${title}: ${options?.body}`);
        }
      };
      Object.assign(window, { told });
    });
    const called = run('touch hidden-name');
    await cardOf('hidden-name').waitFor();
    const told = () => page.evaluate(() => (window as unknown as { told: string[] }).told);
    await until(async () => (await told()).length === 1);
    expect((await told())[0]).toMatch(/^terminal_execute waits for you: /);
    expect((await told())[0]).not.toContain('hidden-name');
    await armed('hidden-name');
    await no('hidden-name').click();
    await called;
  });

  test('the first card is there within 300 ms of the load, at the best of ten', async () => {
    const called = run('touch soon');
    await armed('touch soon');
    await page.addInitScript(() => {
      const observer = new MutationObserver(() => {
        if (!document.querySelector('article')) return;
        observer.disconnect();
        performance.mark('first card');
      });
      observer.observe(document, { childList: true, subtree: true });
    });
    const times: number[] = [];
    for (let load = 0; load < 10; load++) {
      await page.reload();
      await cardOf('touch soon').waitFor();
      const { cardMs, loadMs } = await page.evaluate(() => ({
        cardMs: performance.getEntriesByName('first card')[0]?.startTime ?? Infinity,
        loadMs: (performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming).loadEventEnd,
      }));
      times.push(cardMs - loadMs);
    }
    expect(Math.min(...times)).toBeLessThanOrEqual(300);
    await armed('touch soon');
    await no('touch soon').click();
    await called;
  });

  test('the inbox breaks no rule of accessibility, in the light and in the dark, wide and narrow', async () => {
    const called = run('rm -r other');
    await armed('rm -r other');
    expect(await violationsOf(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await violationsOf(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await no('rm -r other').click();
    await called;
  });
});
