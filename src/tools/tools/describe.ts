import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { declarationOf } from '../declarations.ts';
import { defineTool } from '../tool.ts';

const NAMES_MAX = 10;
/** The most characters of all declarations together. */
const DECLARATIONS_CHARS_MAX = 16_000;

export default defineTool({
  name: 'tools_describe',
  title: 'Describe tools',
  summary:
    'Describe tools by name: what they do, their input and output. Call them by name, or by ringfence_batch if only listed tools can be called.',
  isExtra: true,
  capabilities: [
    { action: 'describe', description: 'Describes tools of the session, with the types of their inputs.' },
  ],
  category: 'search',
  tier: 'read_only',
  idempotent: true,
  dependencies: ['tools_search'],
  effects: () => [],
  input: z.strictObject({
    names: z.array(z.string().min(1).max(128)).min(1).max(NAMES_MAX).describe('As tools_search gives them.'),
  }),
  output: z.strictObject({
    declarations: z.string().describe('One declaration a tool, in TypeScript, behind what it does.'),
    unknown: z.array(z.string()).describe('Names of no tool of this session.'),
  }),
  examples: [
    { input: { names: ['file_read', 'no_such_tool'] }, output: { unknown: ['no_such_tool'] } },
    { input: { names: ['no_such_tool'] }, error: 'NOT_FOUND' },
  ],

  runs: {
    by: 'tools',
    answer({ names }, tools) {
      const wanted = [...new Set(names)];
      const known = wanted.flatMap((name) => tools.find((it) => it.name === name) ?? []);
      const unknown = wanted.filter((name) => !known.some((it) => it.name === name));
      if (known.length === 0)
        throw new ToolError('NOT_FOUND', `this session has no tool named \`${unknown[0]}\``, {
          suggestion: 'Find names with tools_search.',
        });
      const declarations = known.map((it) => `/** ${it.description} */\n${declarationOf(it)}`).join('\n\n');
      return { declarations: declarations.slice(0, DECLARATIONS_CHARS_MAX), unknown };
    },
  },
});
