/** The key `databases` of config.yaml, and the files of `ringfence database add`: connections by name. */
import { posix } from 'node:path';
import * as z from 'zod';
import type { DatabaseSource } from '../tools/context/databases.ts';

export const databaseName = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,63}$/, 'takes up to 64 lower-case letters, digits, - and _, a letter first');

/** Whether a path stays below the folder that it begins in, by its text; hosts check its links. */
const isInside = (path: string): boolean => {
  const plain = posix.normalize(path);
  return !path.includes('\0') && !posix.isAbsolute(plain) && plain !== '.' && !plain.startsWith('..');
};

export const databaseSchema = z.strictObject({
  kind: z.enum(['sqlite']).describe('What it is: a SQLite file in the workspace.'),
  path: z
    .string()
    .min(1)
    .max(4096)
    .refine(isInside, 'takes a path below the workspace, relative to it, such as data/app.db')
    .describe('The file, relative to the workspace of whoever asks.'),
  access: z
    .enum(['read', 'write'])
    .optional()
    .describe('`write`: statements may also change rows, and undo takes the file back. Default: `read`.'),
});
type WrittenDatabase = z.output<typeof databaseSchema>;

/** The most in config.yaml; `databasesMax` bounds all of them. */
const DATABASES_MAX = 64;

export const databasesSchema = z
  .record(databaseName, databaseSchema)
  .refine((it) => Object.keys(it).length <= DATABASES_MAX, `must name at most ${DATABASES_MAX} connections`);

export const toSource = ({ kind, path, access = 'read' }: WrittenDatabase): DatabaseSource => ({
  kind,
  path: posix.normalize(path),
  access,
});
