/** Runs the commands of the tutorial and of how-to pages, and compares what the pages say that they print. */
import { test } from 'vitest';
import { runPage } from '../support/page.ts';

test.each(['tutorial/first-agent', 'how-to/policy', 'how-to/ci', 'how-to/code-tools'])(
  'the commands of docs/%s.md print what it says',
  runPage,
  180_000,
);
