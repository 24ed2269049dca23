import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { searches } from '../search-program.ts';
import { PROBLEMS_MAX, type TypeCheck, typeCheck } from '../source/typescript.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

const FILES_MAX = 64;

const input = z.strictObject({
  path: workspacePath('A file, or a directory, whose tsconfig.json is then checked if it has one.').optional(),
  files: z.array(workspacePath()).min(1).max(FILES_MAX).optional().describe('Files to check instead of path.'),
  project: workspacePath('A tsconfig file, or the directory of one, to check as a whole.').optional(),
  severity: z.enum(['error', 'warning', 'suggestion']).default('warning').describe('The least severe kind to list.'),
  strict: z.boolean().default(false).describe('With a project: check as with `strict`, whatever the project says.'),
});

/** The parameters that other runtimes have. */
const byProject = z.strictObject({
  projectPath: workspacePath('A tsconfig file, or the directory of one.'),
  strict: z.boolean().default(true).describe('Check as with `strict`, whatever the project says.'),
});

export default defineTool({
  ...searches,
  name: 'code_type_check',
  title: 'Check types',
  summary:
    'Check the types of TypeScript and JavaScript files (fast, for files that you changed), or of a whole project by its tsconfig. ' +
    'Without parameters: of the tsconfig.json of the workspace.',
  notes:
    "Ringfence's own TypeScript checks; no code, plugin or compiler of the workspace runs. Options that it does not know are " +
    'errors with `isConfig`. Files of a directory without a tsconfig are checked one by one.',
  isExtra: true,
  capabilities: [{ action: 'check_types', description: 'Reports type errors of TypeScript and JavaScript.' }],
  category: 'code_analysis',
  runs: { in: 'host', readsUnchecked: () => true },
  effects: ({ path, files = [], project }) =>
    ['.', path, project, ...files]
      .filter((it) => it !== undefined)
      .map((target) => ({ kind: 'read' as const, target })),
  input,
  output: z.strictObject({
    success: z.boolean().describe('Whether there are no errors in what was checked.'),
    ...typeCheck.shape,
  }),
  examples: [
    { input: { path: 'lib/main.ts' }, output: { success: true, errors: [], checkedFiles: 1 } },
    { input: { path: 'notes.txt' }, error: 'UNSUPPORTED' },
    { input: { project: 'nowhere' }, error: 'NOT_FOUND' },
    { input: { path: 'lib', files: ['lib/main.ts'] }, error: 'INPUT_INVALID' },
    { input: { files: ['../main.ts'] }, error: 'ACCESS_DENIED' },
  ],
  aliases: [
    {
      name: 'type_check',
      input: byProject,
      toInput: (it) => {
        const { projectPath, strict } = byProject.parse(it);
        return { project: projectPath, strict };
      },
    },
  ],

  async run(wanted, ctx) {
    const found = await check(wanted, ctx);
    return { success: found.totalErrors === 0, ...found };
  },
});

function check(
  { path, files, project, severity, strict }: z.output<typeof input>,
  ctx: ToolContext,
): Promise<TypeCheck> {
  if ([path, files, project].filter((it) => it !== undefined).length > 1)
    throw new ToolError('INPUT_INVALID', 'give one of path, files and project');
  const { typescript } = ctx;
  const maxProblems = PROBLEMS_MAX;
  const wholeProject = project ?? (files ? undefined : typescript.projectOf(path ?? '.'));
  if (wholeProject !== undefined) return typescript.checkProject({ project: wholeProject, strict, maxProblems });
  if (strict)
    throw new ToolError('INPUT_INVALID', 'strict is only for a project', {
      suggestion: 'Give the tsconfig file as project.',
    });
  return typescript.checkFiles({ paths: files ?? [path ?? '.'], severity, maxProblems });
}
