/**
 * Each view of the panel looks as its last accepted picture does, but for clocks, ids and a tolerance. A change that is wanted
 * is accepted by `RINGFENCE_ACCEPT=1 npx vitest run test/panel/pictures`, which writes the contact sheets anew.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { byChromium, chromiumPath, startBrowser } from '../support/browser.ts';
import { takePictures, VIEWS } from '../support/panel-pictures.ts';
import { difference, sheetOf } from './contact-sheet.ts';

const SHEETS = join(import.meta.dirname, '../fixtures/panel');

/** Share of a picture that may differ. Measured: 7 % between two runs; 12 to 38 % somewhere, with another width, colour or type. */
const TOLERANCE = 0.1;

describe.skipIf(chromiumPath === undefined)(`pictures of the panel (${byChromium})`, () => {
  test('views look as their accepted pictures, in three widths, light and dark', { timeout: 600_000 }, async () => {
    const sheets = new Map<string, Buffer[]>();
    const browser = await startBrowser();
    try {
      await takePictures(browser, async (page, { width, theme }) => {
        const name = `${width}-${theme}`;
        sheets.set(name, [...(sheets.get(name) ?? []), await page.screenshot()]);
      });
      const changed: string[] = [];
      for (const [name, pictures] of sheets) {
        const [accepted, sheet] = [join(SHEETS, `${name}.png`), await sheetOf(browser, pictures)];
        if (process.env.RINGFENCE_ACCEPT) writeFileSync(accepted, sheet);
        const shares = await difference(browser, readFileSync(accepted), sheet, VIEWS.length);
        for (const [at, share] of shares.entries())
          if (share > TOLERANCE) changed.push(`${VIEWS[at]}, ${name}: ${(share * 100).toFixed(1)} % differ`);
      }
      expect(
        changed,
        'look at them (node script/panel-pictures.ts FOLDER), then accept them as the head of this file says',
      ).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
