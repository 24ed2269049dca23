/**
 * Pictures of the panel, of a real daemon with two agents at work: `node script/panel-pictures.ts FOLDER` makes each view in three
 * widths, light and dark; without a folder docs/images/panel.png alone.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startBrowser } from '../test/support/browser.ts';
import { SIZES, takePictures, VIEWS } from '../test/support/panel-pictures.ts';

const [folder] = process.argv.slice(2);
const browser = await startBrowser();
try {
  if (folder) mkdirSync(folder, { recursive: true });
  await takePictures(
    browser,
    async (page, { view, width, theme }) => {
      const image = join(import.meta.dirname, '../docs/images/panel.png');
      const picture = await page.screenshot();
      if (folder) writeFileSync(join(folder, `${view}-${width}-${theme}.png`), picture);
      else if (theme === 'light') writeFileSync(image, picture);
    },
    folder ? undefined : { sizes: SIZES.slice(0, 1), views: VIEWS.slice(0, 1) },
  );
} finally {
  await browser.close();
}
