/** Looks up the connections that statements name, and binds the tools for databases to them. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { isRecord } from '../../base/text/values.ts';
import type { DatabaseSource } from '../../tools/context/databases.ts';
import { runsBy } from '../../tools/runs.ts';
import type { NamedTool } from '../../tools/tool.ts';
import { DatabaseError, readDatabase, storedDatabases } from './database-files.ts';

export interface DatabasesOptions {
  readonly stateDir: string;
  /** Connections of config.yaml, which come before stored ones of the same name. */
  readonly configured: Readonly<Record<string, DatabaseSource>>;
  readonly limits: Limits;
}

/** Reads stored connections whenever one is named, so that an added one is there at once. */
export class Databases {
  readonly #options: DatabasesOptions;

  constructor(options: DatabasesOptions) {
    this.#options = options;
  }

  get names(): string[] {
    const { stateDir, configured, limits } = this.#options;
    const all = new Set([...Object.keys(configured), ...storedDatabases(stateDir)]);
    return [...all].sort().slice(0, limits.databasesMax);
  }

  /** Throws NOT_FOUND, and UNSUPPORTED for a stored connection that can't be read. */
  sourceOf(name: string): DatabaseSource {
    const { stateDir, configured, limits } = this.#options;
    if (Object.hasOwn(configured, name)) return configured[name] as DatabaseSource;
    let stored: DatabaseSource | undefined;
    try {
      stored = readDatabase(stateDir, name, limits);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      throw new ToolError('UNSUPPORTED', `the connection \`${name}\` can not be used: its file was changed`, {
        suggestion: 'Ask the person to run: ringfence database list.',
      });
    }
    if (stored) return stored;
    throw new ToolError('NOT_FOUND', `no database connection is named \`${name}\``, { suggestion: this.suggestion });
  }

  get suggestion(): string {
    const { names } = this;
    return names.length > 0
      ? `The connections are: ${names.join(', ')}.`
      : 'Ask the person to add one: ringfence database add NAME --kind sqlite --path FILE.';
  }
}

/** The input with the only connection, if it names none. Throws INPUT_INVALID if there are several, NOT_FOUND if there is none. */
function withConnection(given: unknown, databases: Databases): unknown {
  if (!isRecord(given) || NAMING.some((it) => Object.hasOwn(given, it) && given[it] !== null)) return given;
  const { names, suggestion } = databases;
  if (names.length === 1) return { ...given, connection: names[0] };
  if (names.length === 0) throw new ToolError('NOT_FOUND', 'there is no database connection', { suggestion });
  const issues = [{ path: 'connection', message: 'is missing' }];
  throw new ToolError('INPUT_INVALID', 'connection: is missing', { suggestion, details: { issues } });
}

const NAMING = ['connection', 'database'];

/**
 * A database tool with the connection that a call names. It becomes part of the checked input, so that the policy decides on its file,
 * and an approval is bound to it.
 */
export const withDatabases = (named: NamedTool, databases: Databases): NamedTool =>
  runsBy(named.tool, 'databases')
    ? {
        ...named,
        parse(given, tell) {
          const input = named.parse(withConnection(given, databases), tell) as { readonly connection: string };
          return { ...input, source: databases.sourceOf(input.connection) };
        },
      }
    : named;
