import * as z from 'zod';
import { foundLine } from '../context/search.ts';
import { glob } from '../path-parameters.ts';
import { rare } from '../rare-parameters.ts';
import { searches } from '../search-program.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  pattern: z.string().min(1).max(4096).describe("Regular expression (Rust's syntax) within one line."),
  path: workspacePath('File or directory.').default('.'),
  include: glob('Glob of files: *.ts, src/**, *.js,*.ts.').optional(),
  exclude: glob('Glob to leave out.').optional(),
  caseSensitive: z.boolean().default(false).describe('Whether case matters.'),
  contextLines: z.int().min(0).max(50).default(0).describe('Lines around each match.'),
  literal: z.boolean().default(false).describe('pattern is plain text.'),
  recursive: rare(z.boolean().default(true).describe('Whether directories below are searched too.')),
  maxResults: z.int().min(1).max(5000).default(200).describe('Most lines.'),
});

const { pattern, path, include, caseSensitive, contextLines, maxResults } = input.shape;

/** The parameters of the alias `search_code`, whose context is on or off. */
const searchCode = z.strictObject({
  pattern,
  path,
  caseSensitive,
  maxResults,
  filePattern: include,
  includeContext: z.boolean().default(false).describe('Whether lines around matches are shown.'),
  contextLines: contextLines.unwrap().default(2).describe('Lines shown before and after, with includeContext.'),
});

export default defineTool({
  ...searches,
  name: 'file_grep',
  title: 'Search file contents',
  summary:
    'Find lines that match a regular expression, by file with line numbers. Leaves out what .gitignore does, hidden, binary ' +
    'and secret files.',
  notes: 'Also left out: files over 10 MB. Lines are cut at 500 characters.',
  capabilities: [{ action: 'search', description: 'Finds lines that match a regular expression.' }],
  category: 'search',
  effects: ({ path: target }) => [{ kind: 'read', target }],
  input,
  output: z.strictObject({
    matches: z.array(foundLine),
    count: z.int().nonnegative().describe('Lines returned.'),
    filesSearched: z
      .int()
      .nonnegative()
      .describe('Files searched; if maxResults cut the lines, those with a returned match.'),
    truncated: z
      .boolean()
      .describe('Whether there may be more: too many lines, of which an arbitrary part is returned, or skipped.'),
    skipped: z
      .strictObject({
        tooLarge: z.int().nonnegative().describe('Files over 10 MB.'),
        tooDeep: z.int().nonnegative().describe('Folders whose path is too long to be opened.'),
        binary: z.int().nonnegative().describe('Binary files that match.'),
      })
      .optional()
      .describe('What was passed over; absent if nothing was.'),
  }),
  examples: [
    {
      input: { pattern: 'SECOND' },
      output: { matches: [{ file: 'notes.txt', line: 2, column: 1, text: 'second line' }], count: 1, truncated: false },
    },
    { input: { pattern: 'TOKEN', path: '.env' }, error: 'SENSITIVE_FILE' },
    { input: { pattern: '(' }, error: 'INPUT_INVALID' },
    { input: { pattern: 'root', path: '/etc' }, error: 'ACCESS_DENIED' },
  ],
  aliases: [
    { name: 'grep', input },
    {
      name: 'search_code',
      input: searchCode,
      toInput: ({ filePattern, includeContext, contextLines: lines, ...rest }) => ({
        ...rest,
        include: filePattern,
        contextLines: includeContext ? (lines ?? 2) : 0,
      }),
    },
  ],

  async run({ path: target, exclude, ...query }, ctx) {
    using search = ctx.search(target);
    const found = await search.lines({ ...query, exclude: exclude === undefined ? [] : [exclude] });
    return { ...found, count: found.matches.length };
  },
});
