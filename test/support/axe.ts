/** Rules of accessibility, checked in a page as it is shown. */
import axe from 'axe-core';
import type { Page } from 'playwright-core';

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

/** The violations in a page, in both themes: each as the rule and the element. */
export async function violationsOf(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // As the browser's own code: the page's policy takes no string for a script.
    const client = await page.context().newCDPSession(page);
    await client.send('Runtime.evaluate', { expression: axe.source });
    const expression = `axe.run(document, {runOnly: ${JSON.stringify(TAGS)}}).then((it) => JSON.stringify(it.violations))`;
    const { result } = await client.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    for (const { id, nodes } of JSON.parse(result.value as string) as Violation[])
      for (const it of nodes) found.push(`${colorScheme} ${id}: ${it.html} ${it.failureSummary ?? ''}`);
    await client.detach();
  }
  return found;
}
