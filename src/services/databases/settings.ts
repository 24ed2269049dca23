/** The key `databases` of config.yaml, and the files of `ringfence database add`: connections by name. */
import { posix } from 'node:path';
import * as z from 'zod';
import { parseAddress } from '../../policy/address.ts';
import { toHostName } from '../../policy/network.ts';
import type { DatabaseSource } from '../../tools/context/databases.ts';
import { secretName } from '../secrets/secret-files.ts';

export const databaseName = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,63}$/, 'takes up to 64 lower-case letters, digits, - and _, a letter first');

/** Whether a path stays below the folder that it begins in, by its text; hosts check its links. */
const isInside = (path: string): boolean => {
  const plain = posix.normalize(path);
  return !path.includes('\0') && !posix.isAbsolute(plain) && plain !== '.' && !plain.startsWith('..');
};

const access = z
  .enum(['read', 'write'])
  .optional()
  .describe('`write`: statements may also change rows. Default: `read`.');

const fileSchema = z
  .strictObject({
    kind: z
      .enum(['sqlite', 'duckdb'])
      .describe('What it is: a SQLite file in the workspace, or what DuckDB reads: a folder or a DuckDB file in it.'),
    path: z
      .string()
      .min(1)
      .max(4096)
      .refine(isInside, 'takes a path below the workspace, relative to it, such as data/app.db')
      .describe('The file or folder, relative to the workspace of whoever asks.'),
    access,
  })
  .refine((it) => it.kind !== 'duckdb' || it.access !== 'write', {
    message: 'takes `read` only for duckdb, which changes nothing',
    path: ['access'],
  });

const isPlain = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
const plainName = z.string().min(1).max(128).refine(isPlain, 'must not hold a NUL byte or half a character');

const serverSchema = z
  .strictObject({
    kind: z.enum(['postgres', 'mysql']).describe('What it is: a PostgreSQL server, or one of MySQL or MariaDB.'),
    host: z
      .string()
      .max(253)
      .transform((it) => toHostName(it) ?? '')
      .refine((it) => it !== '', 'takes the name or the address of a host')
      .describe('Name or address of the server.'),
    port: z.int().min(1).max(65_535).optional().describe('Default: the usual one of the kind.'),
    database: plainName.describe('Name of the database.'),
    user: plainName.describe('The user; one with rights beyond the database is refused.'),
    secret: secretName.optional().describe('Name of the secret that is the password: `ringfence secret set NAME`.'),
    tls: z
      .enum(['verify', 'off'])
      .optional()
      .describe('`off`: without encryption, for `private` hosts only. Default: `verify`.'),
    private: z.boolean().optional().describe('Whether the host may be this machine or one of its networks.'),
    ca: z
      .string()
      .max(4096)
      .refine((it) => posix.isAbsolute(it) && isPlain(it), 'takes an absolute path')
      .optional()
      .describe("File with the certificates of the server's authority in PEM. Default: those of the machine."),
    access,
    maxCost: z
      .number()
      .positive()
      .optional()
      .describe(
        'Most cost of a statement in the estimate of the server; MySQL: rows of a join. Default: `databaseCostMax`.',
      ),
  })
  .refine((it) => it.tls !== 'off' || it.private === true, {
    message: 'takes `off` with `private` only: what is sent over public networks is encrypted',
    path: ['tls'],
  })
  // The driver mysql2 compares only the names in certificates.
  .refine((it) => it.kind !== 'mysql' || it.tls === 'off' || parseAddress(it.host) === undefined, {
    message: 'takes a name, not an address, where the certificate of a mysql server is verified',
    path: ['host'],
  });

export const databaseSchema = z.discriminatedUnion('kind', [fileSchema, serverSchema]);
type WrittenDatabase = z.output<typeof databaseSchema>;

/** The most in config.yaml; `databasesMax` bounds all of them. */
const DATABASES_MAX = 64;

export const databasesSchema = z
  .record(databaseName, databaseSchema)
  .refine((it) => Object.keys(it).length <= DATABASES_MAX, `must name at most ${DATABASES_MAX} connections`);

const PORTS = { postgres: 5432, mysql: 3306 } as const;

export function toSource(written: WrittenDatabase): DatabaseSource {
  const { access: rights = 'read' } = written;
  if ('path' in written) return { kind: written.kind, path: posix.normalize(written.path), access: rights };
  const { kind, port = PORTS[kind], tls = 'verify', private: isPrivate = false } = written;
  return { ...written, port, tls, private: isPrivate, access: rights };
}
