import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { readText } from '../edit/changed-files.ts';
import { unifiedDiff } from '../edit/diff.ts';
import { bytesOf } from '../edit/text.ts';
import { selectFiles } from '../selection.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { BUILT_IN, fillIn, fillPath, type TemplateFile } from './templates.ts';

const TEMPLATES = '.ringfence/templates';
const FILES_MAX = 100;

const input = z.strictObject({
  template: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be a name of letters, digits, dots and dashes')
    .describe(`A folder of ${TEMPLATES}, or built in: ${[...BUILT_IN.keys()].join(', ')}.`),
  parameters: z
    .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,63}$/), z.string().max(64 * 1024))
    .default({})
    .describe('Values for {{name}}; {{name | camel}} has cases: camel, pascal, kebab, snake, constant.'),
  to: workspacePath('Directory for the files.'),
  preview: z.boolean().default(false).describe('Only return the diffs; write nothing.'),
});
type Input = z.output<typeof input>;

export default defineTool({
  name: 'code_generate',
  title: 'Generate files from a template',
  summary:
    'Make files from a template of the workspace or a built-in one; {{name}} in their paths and contents stands for ' +
    'parameters. Existing files are never replaced; one undo takes all files back.',
  notes: `A template is a folder below ${TEMPLATES}, whose files hold no code. If writing a file fails, earlier ones are taken back.`,
  isExtra: true,
  capabilities: [{ action: 'generate', description: 'Makes files from a template.' }],
  category: 'code_analysis',
  tier: 'write',
  tiers: { of: ({ preview }) => (preview ? 'read_only' : 'write') },
  effects: ({ template, to, preview }) => [
    { kind: 'read', target: `${TEMPLATES}/${template}` },
    { kind: 'read', target: to },
    ...(preview ? [] : [{ kind: 'write' as const, target: to }]),
  ],
  input,
  output: z.strictObject({
    files: z.array(z.strictObject({ path: z.string(), diff: z.string().optional().describe('Absent if too large.') })),
    template: z.enum(['workspace', 'built in']),
  }),
  examples: [
    {
      input: { template: 'typescript-module', parameters: { name: 'parse page' }, to: 'made' },
      output: { template: 'built in' },
    },
    { input: { template: 'typescript-module', to: 'made' }, error: 'INPUT_INVALID' },
    { input: { template: 'typescript-module', parameters: { name: '..' }, to: 'made' }, error: 'INPUT_INVALID' },
    { input: { template: 'no-such', to: 'made' }, error: 'NOT_FOUND' },
    { input: { template: 'python-module', parameters: { name: 'a' }, to: '..' }, error: 'ACCESS_DENIED' },
  ],
  aliases: [{ name: 'generate_code', input }],

  async run(wanted, ctx) {
    const { files, from } = await made(wanted, ctx);
    if (!wanted.preview) await write(files, ctx);
    const told = [];
    for (const { path, content } of files) {
      await ctx.breathe();
      const diff = await unifiedDiff(path, { before: undefined, after: content }, ctx.limits);
      told.push({ path, diff });
    }
    return { files: told, template: from };
  },
});

interface MadeFile {
  readonly path: string;
  readonly content: Buffer;
}

async function made({ template, parameters, to }: Input, ctx: ToolContext) {
  const own = await ownTemplate(template, ctx);
  const files = own ?? BUILT_IN.get(template);
  if (!files)
    throw new ToolError('NOT_FOUND', `there is no template \`${template}\``, {
      suggestion: `Built in are: ${[...BUILT_IN.keys()].join(', ')}; those of the workspace are folders of ${TEMPLATES}.`,
    });
  const base = to.replace(/\/+$/, '');
  const all = files.map(({ path, text }): MadeFile => {
    const at = `${base}/${fillPath(path, parameters)}`;
    return { path: at, content: bytesOf(at, fillIn(text, parameters), ctx.limits.fileBytesMax) };
  });
  const bytes = all.reduce((sum, it) => sum + it.content.length, 0);
  if (bytes > ctx.limits.changeBytesMax) throw tooMuch('bytes', ctx.limits.changeBytesMax);
  for (const [at, { path }] of all.entries()) {
    const isTwice = all.findIndex((it) => it.path === path) < at;
    if (isTwice || (await ctx.changes.state(path)) !== null)
      throw new ToolError(
        'ALREADY_EXISTS',
        `\`${path}\` ${isTwice ? 'would be made twice' : 'exists'}; nothing was made`,
        {
          suggestion: 'Choose other parameters or another directory.',
        },
      );
  }
  return { files: all, from: own ? ('workspace' as const) : ('built in' as const) };
}

/** The files of a template of the workspace; undefined if there is none. */
async function ownTemplate(name: string, ctx: ToolContext): Promise<TemplateFile[] | undefined> {
  const folder = `${TEMPLATES}/${name}`;
  try {
    ctx.openDirectory(folder)[Symbol.dispose]();
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
  const files: TemplateFile[] = [];
  for await (const path of selectFiles({ path: folder, include: ['**'], exclude: [] }, ctx)) {
    const found = readText(path, folder, ctx);
    if ('code' in found) throw new ToolError(found.code, `\`${path}\` of the template can not be read as text`);
    if (files.push({ path: path.slice(folder.length + 1), text: found.text }) > FILES_MAX)
      throw tooMuch('files', FILES_MAX);
  }
  return files;
}

const tooMuch = (what: string, limit: number) =>
  new ToolError('FILE_LIMIT', `the template makes more than ${limit} ${what}`, {
    details: { limit, enforcedBy: 'tool' },
  });

/** Writes all files; if one fails, those before it are removed again. */
async function write(files: readonly MadeFile[], ctx: ToolContext): Promise<void> {
  const done: string[] = [];
  try {
    for (const { path, content } of files) {
      await ctx.breathe();
      using target = ctx.target(path, { createDirs: true });
      target.replace(content, { overwrite: false });
      done.push(path);
    }
  } catch (error) {
    for (const path of done.reverse()) await ctx.changes.remove(path, { recursive: false });
    throw error;
  }
}
