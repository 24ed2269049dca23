/** The commands of docs/how-to/fleet.md, on a real bus. */
import { test } from 'vitest';
import { noBus } from '../support/fleet.ts';
import { runPage } from '../support/page.ts';

test.skipIf(noBus !== undefined)(
  `the commands of docs/how-to/fleet.md print what it says${noBus ? ` (${noBus})` : ''}`,
  () => runPage('how-to/fleet'),
  240_000,
);
