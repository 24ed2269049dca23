/** What a package manager does for an installation, in three steps: it reads a project, plans in a copy of it, and installs the plan. */
import { posix } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import type { RegistryKind } from '../context/requests.ts';
import type { ToolContext } from '../tool.ts';
import type { Advisory } from './advisories.ts';
import type { LockedPackage } from './locked.ts';
import type { ManagerName, PackageTerms } from './settings.ts';

/** What a call asks for. */
export interface Wanted {
  readonly packages: readonly { readonly name: string; readonly version?: string | undefined }[];
  readonly dev: boolean;
  /** Whether versions in their cool-down are left out by the manager itself. */
  readonly isCooled: boolean;
}

/** The folder of a project, and its files that an installation depends on; null for a missing one. */
export interface ProjectFiles {
  readonly folder: string;
  readonly texts: Readonly<Record<string, string | null>>;
}

/** What a manager made of a copy of the project. */
export interface Planned {
  /** Texts of the files that installing writes: manifest and lockfile. */
  readonly files: Readonly<Record<string, string>>;
  readonly before: readonly LockedPackage[];
  readonly after: readonly LockedPackage[];
  /** The packages that the project itself names. */
  readonly direct: ReadonlySet<string>;
  /** Times of publication by `name@version`, ISO 8601. */
  readonly times: Readonly<Record<string, string>>;
  readonly advisories: readonly Advisory[] | 'not checked';
}

/** A plan as `run` gets it: the files as they will be, and the hashes of those that it was made from. */
export interface BoundFiles {
  readonly files: Record<string, string>;
  readonly before: Record<string, string | null>;
}

export interface StepParts {
  readonly terms: PackageTerms;
  readonly ctx: ToolContext;
}

export interface PackageManager {
  readonly name: ManagerName;
  readonly ecosystem: RegistryKind;
  readonly manifest: string;
  readonly lockfile: string;
  /** The manifest of packages for development only, where that is another file. */
  readonly devManifest?: string;
  /** Names of packages; others, such as URLs, would mean something else to the manager. */
  readonly packageName: RegExp;
  /** Words of the command that a person would type for it: rules for that command hold for the call. */
  commandOf(wanted: Pick<Wanted, 'packages' | 'dev'>): string[];
  /** Reads a project. Throws UNSUPPORTED for one that it does not install, POLICY_DENIED for settings that it must not follow. */
  projectAt(folder: string, parts: StepParts): ProjectFiles;
  /** Plans in a sandbox of its own. Throws what the manager says is wrong. */
  planned(project: ProjectFiles, wanted: Wanted, parts: StepParts): Promise<Planned>;
  /** Installs a plan. Throws CONFLICT if the project has changed since, CODE_ERROR with the words of the manager. */
  applied(folder: string, plan: BoundFiles, parts: StepParts): Promise<void>;
  /** The command that installs what the lockfile says, for a person. */
  readonly restoreCommand: string;
  /** Whether packages have scripts that installing would run; they lie in `node_modules` then. */
  readonly hasScripts?: true;
}

/** The text of a file; null if there is none, undefined if the policy hides it, from commands as well. */
export function textAt(path: string, ctx: ToolContext): string | null | undefined {
  try {
    using file = ctx.open(path);
    return file.bytes().toString('utf8');
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    if (error.code === 'NOT_FOUND') return null;
    if (error.code === 'SENSITIVE_FILE' || error.code === 'POLICY_DENIED') return undefined;
    throw error;
  }
}

/** The text of a file that a project can't be without. Throws NOT_FOUND and what opening throws. */
export function manifestAt(path: string, ctx: ToolContext): string {
  using file = ctx.open(path);
  return file.bytes().toString('utf8');
}

/** The folders above a project's, up to the workspace: managers read settings there, too. */
export function foldersAbove(folder: string): string[] {
  const parent = posix.dirname(posix.normalize(folder));
  return posix.normalize(folder) === '.' ? [] : [parent, ...foldersAbove(parent)];
}

/** Throws POLICY_DENIED for settings that may run code or move the registry. */
export function assertSettings(path: string, keys: readonly string[]): void {
  if (keys.length === 0) return;
  throw new ToolError(
    'POLICY_DENIED',
    `${path} sets ${keys.slice(0, 10).join(', ')}, which may run code or move the registry; nothing was planned`,
    { suggestion: 'Ask the person to install, or to take these keys out.', details: { keys: keys.slice(0, 100) } },
  );
}
