/** What a host reports of the undo journal of a call. */
import { isRecord } from '../../base/text/values.ts';

/** What a job reports of its journal. */
export interface JournalReport {
  readonly undo: 'full' | 'partial' | 'none';
  readonly bytes: number;
  /** All paths that the job changed, relative to the workspace, without links. */
  readonly paths: readonly string[];
}

/** What can't be undone of a command, and why. */
export interface MissingPath {
  readonly path: string;
  readonly why: string;
}

export interface CommandReport extends JournalReport {
  /** The first of the paths that can't be undone. */
  readonly missing: readonly MissingPath[];
  readonly total: number;
  /** The first changed files of which no event told. */
  readonly unnamed?: readonly string[];
}

const PATH_CHARS_MAX = 4096;
const WHY = /^[a-z-]{1,32}$/;

/** Whether a host's journal report has the right shape. */
export function isJournalReport(it: unknown, pathsMax: number): it is JournalReport {
  return (
    isRecord(it) &&
    (it.undo === 'full' || it.undo === 'partial' || it.undo === 'none') &&
    Number.isSafeInteger(it.bytes) &&
    (it.bytes as number) >= 0 &&
    Array.isArray(it.paths) &&
    it.paths.length <= pathsMax &&
    it.paths.every(isPath)
  );
}

/** The most paths that a report may name. */
export interface ReportBounds {
  readonly pathsMax: number;
  readonly missingMax: number;
}

/** Whether a report on a command has the right shape. */
export function isCommandReport(it: unknown, { pathsMax, missingMax }: ReportBounds): it is CommandReport {
  if (!isJournalReport(it, pathsMax)) return false;
  const { missing, total, unnamed = [] } = it as Partial<CommandReport>;
  return (
    Number.isSafeInteger(total) &&
    Array.isArray(missing) &&
    missing.length <= missingMax &&
    missing.every((one) => isRecord(one) && isPath(one.path) && typeof one.why === 'string' && WHY.test(one.why)) &&
    Array.isArray(unnamed) &&
    unnamed.length <= missingMax &&
    unnamed.every(isPath)
  );
}

const isPath = (it: unknown): it is string => typeof it === 'string' && it !== '' && it.length <= PATH_CHARS_MAX;
