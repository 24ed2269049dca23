import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { glob } from '../path-parameters.ts';
import { searches } from '../search-program.ts';
import { defineTool } from '../tool.ts';

const input = z.strictObject({
  pattern: glob('Glob of the files, as in file_glob: **/*.ts.').optional(),
  content: z.string().min(1).max(4096).optional().describe('Text that the files contain in one line; case is ignored.'),
  fileType: z
    .string()
    .regex(/^\.?[\w-]{1,32}$/, 'must be an extension such as ts')
    .optional()
    .describe('Extension of the files, with or without its dot.'),
  maxResults: z.int().min(1).max(5000).default(100).describe('Most files returned.'),
});

export default defineTool({
  ...searches,
  name: 'file_search',
  title: 'Search for files',
  summary:
    'Find workspace files by name, extension, or a text in them, with the number of matches in each, most first. Give at least one of ' +
    'pattern, content and fileType. Leaves out what .gitignore does and hidden files. For lines or regular expressions use file_grep.',
  isExtra: true,
  capabilities: [{ action: 'search', description: 'Finds files by name, extension or a text in them.' }],
  category: 'search',
  effects: () => [{ kind: 'read', target: '.' }],
  input,
  output: z.strictObject({
    files: z.array(
      z.strictObject({
        path: z.string().describe('Relative to the workspace root.'),
        matches: z.int().nonnegative().describe('How often the file contains the content; 0 without content.'),
      }),
    ),
    totalMatches: z
      .int()
      .nonnegative()
      .describe('Matches in all files found; without content, the files. If truncated by size, a lower bound.'),
    truncated: z.boolean(),
  }),
  examples: [
    { input: { content: 'LINE', fileType: 'txt' }, output: { files: [{ path: 'notes.txt', matches: 3 }] } },
    { input: { pattern: 'docs/*' }, output: { files: [{ path: 'docs/guide.md', matches: 0 }], totalMatches: 1 } },
    { input: {}, error: 'INPUT_INVALID' },
  ],
  aliases: [{ name: 'search', input }],

  async run({ pattern: include, content, fileType, maxResults }, ctx) {
    if (include === undefined && content === undefined && fileType === undefined)
      throw new ToolError('INPUT_INVALID', 'give at least one of pattern, content and fileType');
    const scope = { include, extension: fileType?.replace(/^\./, '') };
    using search = ctx.search('.');
    const files: { path: string; matches: number }[] = [];
    let isFull = false;
    const take = (path: string, matches: number) => {
      isFull = files.length >= ctx.limits.searchPathsMax;
      if (!isFull) files.push({ path, matches });
      return !isFull;
    };
    if (content === undefined) await search.files(scope, (path) => take(path, 0));
    else await search.counts({ ...scope, pattern: content, literal: true, caseSensitive: false }, take);
    files.sort((a, b) => b.matches - a.matches || (a.path < b.path ? -1 : 1));
    return {
      files: files.slice(0, maxResults),
      totalMatches: content === undefined ? files.length : files.reduce((sum, it) => sum + it.matches, 0),
      truncated: isFull || files.length > maxResults,
    };
  },
});
