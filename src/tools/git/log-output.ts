/** Parses commits that git prints in `COMMIT_FORMAT`. Architecture invariant: pure. */
import * as z from 'zod';

export const commitShape = {
  hash: z.string(),
  author: z.string().describe('Name and address.'),
  date: z.string().describe('When it was written, ISO 8601.'),
  subject: z.string(),
};
export type Commit = z.output<z.ZodObject<typeof commitShape>>;

/** A `--format` of four fields separated by NUL; with `-z` git ends the last one, too. */
export const COMMIT_FORMAT = '%H%x00%an <%ae>%x00%aI%x00%s';
const FIELDS = 4;

/** Parses commits; leaves out an incomplete one. */
export function parseCommits(output: Buffer): Commit[] {
  const fields = output.toString('utf8').split('\0');
  const commits: Commit[] = [];
  for (let at = 0; at + FIELDS < fields.length; at += FIELDS) {
    const [hash, author, date, subject] = fields.slice(at, at + FIELDS) as [string, string, string, string];
    commits.push({ hash, author, date, subject });
  }
  return commits;
}
