import * as z from 'zod';
import { CATEGORIES } from '../capability.ts';
import { defineTool } from '../tool.ts';
import { FOUND_TOOLS_MAX, QUERY_CHARS_MAX, searchTools } from './find.ts';

export default defineTool({
  name: 'tools_search',
  title: 'Find tools',
  summary: 'Find tools that are not listed, by words. tools_describe tells how to call them.',
  notes: `Names at most ${FOUND_TOOLS_MAX} tools, the best match first; \`total\` counts all. Listed for models where tools of providers and connectors are left out of their list.`,
  isExtra: true,
  capabilities: [{ action: 'search', description: 'Finds tools of the session by words.' }],
  category: 'search',
  tier: 'read_only',
  idempotent: true,
  effects: () => [],
  input: z.strictObject({
    query: z.string().min(1).max(QUERY_CHARS_MAX).describe('Such as `create issue`.'),
    category: z.enum(CATEGORIES).optional().describe('Only tools of this category.'),
  }),
  output: z.strictObject({
    tools: z.array(
      z.strictObject({
        name: z.string(),
        summary: z.string(),
        why: z.string().optional().describe('Why it stands higher than its words say: what it did here.'),
      }),
    ),
    total: z.int().nonnegative(),
  }),
  examples: [
    { input: { query: 'screenshot' }, output: { total: 1 } },
    { input: { query: '' }, error: 'INPUT_INVALID' },
  ],
  runs: { by: 'tools', answer: (query, tools, learned) => searchTools(tools, query, learned(query)) },
});
