/**
 * Errors of DuckDB as refusals. A message may hold values of rows as soon as DuckDB looks into a file, so only those
 * about the words of the statement are passed on.
 */
import { Refused } from '../sqlite/refusals.ts';

export type Phase = 'open' | 'prepare' | 'run';

const MESSAGE = /^(?:Failed to [\w ]+: )?([A-Z][A-Za-z ]*?) Error: (.*)$/s;
/** Errors about the words of a statement. */
const OF_WORDS = new Set(['Parser', 'Binder', 'Catalog', 'Syntax']);
/** What the package says of a text without a statement. */
const NO_STATEMENT = 'Error in native callback';
const CHARS_MAX = 600;

/** The refusal that an error of DuckDB stands for; throws the error if it stands for none. */
export function asRefused(error: unknown, phase: Phase): Refused {
  if (error instanceof Refused) return error;
  if (!(error instanceof Error)) throw error;
  const [, kind = '', text = ''] = MESSAGE.exec(error.message) ?? [];
  if (kind === 'Permission') return notAllowed();
  if (error.message === NO_STATEMENT) return new Refused('INPUT_INVALID', 'sql holds no statement');
  if (kind === 'Out of Memory' || /bad_alloc/.test(error.message))
    return new Refused('MEMORY_LIMIT', 'the statement needs more memory than it may use', 'Sort or group fewer rows.');
  if (/Conflicting lock|Could not set lock/.test(text))
    return new Refused(
      'CONFLICT',
      'another program has the database open for writing',
      'Call again when it is closed.',
    );
  if (phase === 'open') return new Refused('UNSUPPORTED', 'the file is not a DuckDB database of a known version');
  if (/read-only mode/.test(text)) return new Refused('ACCESS_DENIED', 'the connection only reads');
  if (kind === 'Missing Extension' || /extension/i.test(kind))
    return new Refused('UNSUPPORTED', 'the statement needs an extension of DuckDB, and none is loaded');
  if (text.startsWith('No files found that match'))
    return new Refused('NOT_FOUND', 'no file of the folder has that name', 'List the files with database_schema.');
  if (phase === 'prepare' && OF_WORDS.has(kind))
    return new Refused('INPUT_INVALID', `sql: ${text.slice(0, CHARS_MAX).toWellFormed()}`);
  if (kind === '' || kind === 'INTERNAL' || kind === 'FATAL') throw error;
  return new Refused('INPUT_INVALID', `the statement failed while it read: ${kind} error`);
}

function notAllowed(): Refused {
  const suggestion =
    'Name files below the folder of the connection, as database_schema lists them; name each file where rules hide others of the folder.';
  return new Refused('ACCESS_DENIED', 'the connection does not allow this file', suggestion);
}
