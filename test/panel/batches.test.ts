/** The panel's views of batches in a real Chromium: the graph and the critical path while it runs, and composing one. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Download, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { BatchCall, Client } from '../../src/client/client.ts';
import { violationsOf } from '../support/axe.ts';
import { byChromium, chromiumPath, openPanel, startBrowser } from '../support/browser.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';

const run = (id: string, command: string, dependsOn: string[] = []): BatchCall => ({
  id,
  tool: 'terminal_execute',
  input: { command },
  dependsOn,
});

describe.skipIf(chromiumPath === undefined)(`batches in the panel (${byChromium})`, () => {
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
  const box = (id: string) => page.locator('.graph g').filter({ hasText: id });
  const rows = () => page.locator('.row.step');

  describe('a batch', () => {
    test('a running batch shows what runs, what waits, and the chain that decides how long it takes', async () => {
      const ended = agent.batch(
        [
          run('first', 'true'),
          run('long', 'until test -e go-on; do sleep 0.05; done', ['first']),
          run('short', 'true', ['first']),
          run('last', 'exit 0', ['long', 'short']),
          { id: 'missing', tool: 'file_read', input: { path: 'is-not-there' } },
        ],
        { batchId: 'live one' },
      );
      await go('Batches');
      await page.getByRole('link', { name: 'live one' }).click();
      await page.locator('.graph .running').filter({ hasText: 'long' }).waitFor();
      expect(await box('first').getAttribute('class')).toContain('done');
      expect(await box('last').getAttribute('class')).toContain('waits');
      await page.locator('.path').getByText('first → long → last').waitFor();
      writeFileSync(join(daemon.workspace, 'go-on'), '');
      const { metadata } = await ended;
      await page.getByText('ended, 5 of 5 calls ended, 1 failed').waitFor();
      expect(await page.locator('.path').textContent()).toBe(metadata.criticalPath.join(' → '));
      expect(await box('long').getAttribute('class')).toContain('critical');
      expect(await box('missing').getAttribute('class')).toContain('failed');
      const times = await rows().filter({ hasText: 'short' }).textContent();
      expect(times).toMatch(/slack [\d.]+ m?s/);
      expect(await rows().filter({ hasText: 'long' }).textContent()).toContain('no slack');
      expect(await page.locator('.edge.critical').count()).toBe(2);
      await rows().filter({ hasText: 'missing' }).click();
      await page.getByRole('heading', { name: 'NOT_FOUND' }).waitFor();
    });

    test('a batch shows its estimate beside the time that it took', async () => {
      await agent.batch([run('once', 'true')], { batchId: 'for the past' });
      await until(async () => {
        const { batches } = (await operator.request('batches.list', {})) as { batches: { batchId: string }[] };
        return batches.some((it) => it.batchId === 'for the past');
      });
      await agent.batch([run('again', 'true')], { batchId: 'with a past' });
      await go('Batches');
      await page.getByRole('link', { name: 'with a past' }).click();
      await page
        .locator('.took')
        .getByText(/^[\d.]+ m?s, estimated [\d.]+ m?s$/)
        .waitFor();
    });

    test('a person can end the batch of another session', async () => {
      const ended = agent.batch([run('endless', 'sleep 600'), run('never', 'true', ['endless'])], {
        batchId: 'endless',
      });
      await go('Batches');
      await page.getByRole('link', { name: 'endless' }).click();
      await page.locator('.graph .running').waitFor();
      await page.getByRole('button', { name: 'Cancel' }).click();
      const { results } = await ended;
      expect(results.map((it) => it.success || it.error.code)).toEqual(['CANCELLED', 'CANCELLED']);
      await page.getByText('ended, 2 of 2 calls ended, 2 failed').waitFor();
      const { entries } = (await operator.request('audit.query', { kind: 'session', text: 'cancel' })) as {
        entries: object[];
      };
      expect(entries.length).toBeGreaterThan(0);
    });

    test('a batch of a thousand calls draws only its critical path, and few rows', async () => {
      const calls = Array.from({ length: 1000 }, (_, at) => ({ id: `c${at}`, tool: 'file_list', input: {} }));
      await agent.batch(calls, { batchId: 'wide' });
      await go('Batches');
      await page.getByRole('link', { name: 'wide' }).click();
      await page.getByText('1000 calls: only the critical path is drawn').waitFor();
      expect(await page.locator('.graph g').count()).toBe(1);
      expect(await rows().count()).toBeLessThanOrEqual(60);
    });

    test('the names of a batch and its calls stay text', async () => {
      const id = '<img/src=x/onerror=alert(1)>';
      await agent.batch([run(id, 'true')], { batchId: '<b>bold</b>/../x' });
      await go('Batches');
      await page.getByRole('link', { name: '<b>bold</b>' }).click();
      await page.getByText('ended, 1 of 1 calls ended').waitFor();
      expect(await page.locator('main img, main b').count()).toBe(0);
      expect(await page.locator('.graph title').textContent()).toContain(id);
    });

    test('a batch that is no longer known is reported as such', async () => {
      await page.evaluate(() => {
        location.hash = '#/batches/nothing';
      });
      await page.getByText('there is no batch nothing, or it is no longer kept').waitFor();
    });

    test('breaks no rule of accessibility, nor does the list', async () => {
      await agent.batch([run('a', 'true'), run('b', 'exit 1', ['a'])], { batchId: 'plain' });
      await go('Batches');
      await page.getByRole('link', { name: 'plain' }).waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await page.getByRole('link', { name: 'plain' }).click();
      await page.getByText('ended, 2 of 2').waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await page.setViewportSize({ width: 360, height: 640 });
      expect(await violationsOf(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    });
  });

  describe('composing', () => {
    const steps = () => page.locator('fieldset.compose');
    const add = async (tool: string) => {
      const before = await steps().count();
      await page.getByLabel('Tool').selectOption(tool);
      await page.getByRole('button', { name: 'Add the call' }).click();
      await steps().nth(before).waitFor();
      return steps().nth(before);
    };
    const contentOf = async (download: Download) => readFileSync(await download.path(), 'utf8');
    const save = async (name: string) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
      return contentOf(download);
    };

    /** Composes a read whose content is written to another file, with a word before it. */
    async function composeCopy(): Promise<void> {
      await go('Compose');
      const read = await add('file_read');
      await read.getByLabel('path (needed)').fill('from.txt');
      const write = await add('file_write');
      await write.getByLabel('path (needed)').fill('copy.txt');
      await write.getByLabel('content (needed)', { exact: true }).fill('copied: ');
      await write.getByLabel('Put an output into content of write').selectOption('${read.data.content}');
      expect(await write.getByLabel('content (needed)', { exact: true }).inputValue()).toBe(
        'copied: ${read.data.content}',
      );
      await page.getByText('2 levels, critical path read → write').waitFor();
    }

    test('wires outputs to inputs, shows the plan, and runs it in the chosen folder', async () => {
      writeFileSync(join(other, 'from.txt'), 'the text\n');
      await composeCopy();
      await page.getByRole('textbox', { name: 'Workspace' }).fill(other);
      await page.getByRole('textbox', { name: 'Workspace' }).press('Tab');
      await page.getByText('2 levels, critical path read → write').waitFor();
      expect(await page.locator('.graph g').count()).toBe(2);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.getByText(/: 2 of 2 calls succeeded, in \d+ ms/).waitFor();
      expect(readFileSync(join(other, 'copy.txt'), 'utf8')).toBe('copied: the text\n');
      await page.getByRole('link', { name: 'This batch' }).click();
      await page.getByText('ended, 2 of 2 calls ended, 0 failed').waitFor();
    });

    test('the composed batch is saved as a batch file, which the command line runs and the page opens again', async () => {
      writeFileSync(join(daemon.workspace, 'from.txt'), 'by file\n');
      await composeCopy();
      const file = join(temporaryDir('saved'), 'batch.json');
      writeFileSync(file, await save('Save as batch file'));
      expect(await runCli(daemon, ['batch', file])).toMatchObject({ code: 0 });
      expect(readFileSync(join(daemon.workspace, 'copy.txt'), 'utf8')).toBe('copied: by file\n');
      await page.reload();
      await page.getByLabel('Open a batch file').setInputFiles(file);
      await page.getByText('2 levels, critical path read → write').waitFor();
      expect(await steps().nth(1).getByLabel('content (needed)', { exact: true }).inputValue()).toBe(
        'copied: ${read.data.content}',
      );
    });

    test('the composed batch is saved as a program that code_run runs', async () => {
      writeFileSync(join(daemon.workspace, 'from.txt'), 'by program\n');
      await composeCopy();
      const code = await save('Save as program');
      expect(await agent.call('code_run', { code })).toMatchObject({
        success: true,
        data: { value: { read: { content: 'by program\n' }, write: { path: 'copy.txt' } } },
      });
      expect(readFileSync(join(daemon.workspace, 'copy.txt'), 'utf8')).toBe('copied: by program\n');
    });

    test('the composed batch is saved as a tool with a typed input, tried, called by an agent and removed', async () => {
      writeFileSync(join(daemon.workspace, 'from.txt'), 'by tool\n');
      await composeCopy();
      await page.getByRole('button', { name: 'Add an input' }).click();
      await page.getByLabel('Input', { exact: true }).fill('target');
      await page.getByLabel('What it is').fill('The file to write.');
      await page.getByLabel('Example').fill('tried.txt');
      await steps().nth(1).getByLabel('path (needed)').fill('${input.target}');
      await page.getByText('2 levels, critical path read → write').waitFor();
      await page.getByLabel('Its name').fill('copied');
      await page.getByLabel('What it does').fill('Copies a file.');
      await page.getByRole('button', { name: 'Save as tool' }).click();
      await page.getByText('copied__run is saved, version 1.0.0.').waitFor();
      await page.getByRole('button', { name: 'Try it' }).click();
      await page.getByText('It gave {"value":').waitFor();
      expect(readFileSync(join(daemon.workspace, 'tried.txt'), 'utf8')).toBe('copied: by tool\n');
      expect(await agent.call('copied__run', { target: 'called.txt' })).toMatchObject({ success: true });
      expect(await violationsOf(page)).toEqual([]);
      await page.getByRole('button', { name: 'Remove the tool copied' }).click();
      await page.getByText('copied is removed.').waitFor();
      expect(await agent.call('copied__run', {})).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
    });

    test('tells of a field that is no JSON, of a circle, and of a file that is no batch', async () => {
      await go('Compose');
      const read = await add('file_read');
      await read.getByLabel('path (needed)').fill('${other.data.content}');
      await page.getByText('refers to `other`, which is no call of this batch').waitFor();
      expect(await page.getByRole('button', { name: 'Run', exact: true }).isDisabled()).toBe(true);
      await read.getByText('more fields').click();
      await read.getByLabel(/^maxLines/).fill('many');
      await page.getByText('In maxLines of read is neither JSON nor one reference: many').waitFor();
      const file = join(temporaryDir('saved'), 'other.json');
      writeFileSync(file, '{"no": "batch"}');
      await page.getByLabel('Open a batch file').setInputFiles(file);
      await page.getByText('The file is no batch: it has no list of calls.').waitFor();
    });

    test('breaks no rule of accessibility, and needs no pointer', async () => {
      await go('Compose');
      await page.getByLabel('Tool').focus();
      await page.getByLabel('Tool').selectOption('file_read');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await steps().first().waitFor();
      await steps().first().getByLabel('path (needed)').fill('a');
      await page.getByText('1 levels, critical path read').waitFor();
      expect(await violationsOf(page)).toEqual([]);
      await page.setViewportSize({ width: 360, height: 640 });
      expect(await violationsOf(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    });
  });
});
