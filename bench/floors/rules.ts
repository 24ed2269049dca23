import type { Rule } from '../../src/policy/schema.ts';
import { ruleOf } from '../../test/support/policy.ts';

/** Makes rules on paths, commands and tools as people write them: plain names, extensions, prefixes, depths, homes, exceptions. */
export function manyRules(count: number): Rule[] {
  const shapes: ((at: number) => Rule)[] = [
    (at) => ruleOf('deny', { read: [`**/secret-${at}.pem`, `~/.config/app-${at}/**`] }),
    (at) => ruleOf('ask', { write: `src/module-${at}/**` }),
    (at) => ruleOf('allow', { command: ['git', [`status-${at}`, `log-${at}`]] }),
    (at) => ruleOf('deny', { command: [`program-${at}`] }),
    (at) => ruleOf('ask', { tool: `mcp_${at}_*`, path: `data/${at}/*.csv` }),
    (at) => ruleOf('deny', { all: [{ tool: `file_${at}` }, { not: { path: 'docs/**' } }] }),
    (at) => ruleOf('deny', { path: `**/.env.stage-${at}*`, when: { principal: `agent-${at}` } }),
    (at) => ruleOf('allow', { host: `*.example-${at}.org` }),
    (at) => ruleOf('deny', { any: [{ read: `/etc/app-${at}/**` }, { command: ['cat', `/etc/app-${at}`] }] }),
    (at) => ruleOf('ask', { path: `**/*.kind${at}`, not: { principal: 'ci' } }),
  ];
  return Array.from({ length: count }, (_, at) => (shapes[at % shapes.length] as (at: number) => Rule)(at));
}
