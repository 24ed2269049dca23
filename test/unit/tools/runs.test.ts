import { expect, test } from 'vitest';
import { builtinToolset, toolsOf } from '../../../src/tools/registry.ts';

/** Tools of which a runner carries out some calls, and `run` the others, which read files. */
const BOTH = ['database_explain', 'database_query', 'database_schema', 'docker_run'];

test('tools have a `run` if a host runs them, and none if a runner of the gateway does', () => {
  const wrong = toolsOf(builtinToolset())
    .filter(({ name, runs, run }) => {
      const byRunner = runs !== undefined && 'by' in runs;
      return BOTH.includes(name) ? !run : (run === undefined) !== byRunner;
    })
    .map(({ name }) => name);
  // No service is configured: each search fails, and says what to configure.
  expect(wrong).toEqual(['web_search']);
});
