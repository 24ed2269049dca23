/** Plans and carries out an installation by npm: what its two programs are given, and what is made of their reports. */
import { ToolError } from '../../errors.ts';
import { parseJson } from '../../text/json.ts';
import { isRecord } from '../../text/values.ts';
import type { CommandResult, ToolContext } from '../tool.ts';
import type { Finding } from './npm-findings.ts';
import { APPLY, PLAN } from './npm-scripts.ts';
import type { PackageTerms } from './settings.ts';

export const MANIFEST = 'package.json';
export const LOCKFILE = 'package-lock.json';

/** What npm made of a copy of the project. */
export interface PlannedFiles {
  readonly manifest: string;
  readonly lock: string;
  readonly times: Readonly<Record<string, string>>;
  readonly audit: unknown;
}

/** The folder of a project, and its files that an installation depends on; null for a missing one. */
export interface ProjectFiles {
  readonly folder: string;
  readonly texts: Readonly<Record<string, string | null>>;
}

/**
 * Options that a project's settings can't override: nothing runs but npm, and only the registry is asked. The sandbox allows no other
 * host in any case.
 */
const flagsOf = (registry: string): string[] => [
  `--registry=${registry}`,
  '--ignore-scripts',
  '--allow-git=none',
  '--git=/bin/false',
  '--script-shell=/bin/false',
  '--node-options=',
  '--userconfig=/tmp/no-user-config',
  '--globalconfig=/tmp/no-global-config',
  '--workspaces=false',
  '--replace-registry-host=never',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  '--no-progress',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
  '--loglevel=error',
];

/** The proxy is on loopback, as a registry may be: no address is asked past it. */
const ENVIRONMENT = { NO_PROXY: '', no_proxy: '', NODE_NO_WARNINGS: '1' };

/** npm tells times of publication only where it has to compare them. */
const cutOffOf = ({ notAfter, coolDownDays }: PackageTerms, isCooled: boolean): string[] =>
  coolDownDays === 0 ? [] : [`--before=${isCooled ? notAfter : '9999-12-31T00:00:00.000Z'}`];

export interface Wanted {
  readonly specs: readonly string[];
  readonly dev: boolean;
  /** Whether versions in their cool-down are left out by npm itself. */
  readonly isCooled: boolean;
}

/** Has npm plan in a sandbox of its own. Throws what npm says is wrong. */
export async function planned(
  { texts }: ProjectFiles,
  { specs, dev, isCooled }: Wanted,
  { terms, ctx }: { terms: PackageTerms; ctx: ToolContext },
): Promise<PlannedFiles> {
  const files = Object.entries(texts).filter(([, text]) => text !== null);
  const report = await reported(PLAN, '.', ctx, {
    files: Object.fromEntries(files),
    registry: terms.registry,
    audit: true,
    args: ['install', '--package-lock-only', ...(dev ? ['--save-dev'] : [])],
    specs,
    flags: [...flagsOf(terms.registry), ...cutOffOf(terms, isCooled)],
  });
  const { version, code, stderr, manifest, lock, times, audit } = report;
  const major = Number.parseInt(String(version), 10);
  if (!(major >= 7))
    throw new ToolError('UNSUPPORTED', `npm ${String(version).slice(0, 32)} is too old; 7 or newer is supported`);
  if (code !== 0 || typeof manifest !== 'string' || typeof lock !== 'string') throw refusedByNpm(String(stderr));
  return { manifest, lock, times: timesOf(times), audit };
}

/** The times that are times, in one form: the registry could send any text. */
function timesOf(value: unknown): Record<string, string> {
  const entries = isRecord(value) ? Object.entries(value) : [];
  return Object.fromEntries(
    entries.flatMap(([key, time]) => {
      const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN;
      return Number.isNaN(ms) ? [] : [[key, new Date(ms).toISOString()]];
    }),
  );
}

/** Installs a plan in a project. Throws CONFLICT if the project has changed since, CODE_ERROR with the words of npm. */
export async function applied(
  { folder }: Pick<ProjectFiles, 'folder'>,
  { files, before }: { files: Record<string, string>; before: Record<string, string | null> },
  { terms, ctx }: { terms: PackageTerms; ctx: ToolContext },
): Promise<void> {
  const report = await reported(APPLY, folder, ctx, { files, before, args: ['ci'], flags: flagsOf(terms.registry) });
  const { moved, linked, code, stderr, changed } = report;
  if (Array.isArray(moved))
    throw new ToolError('CONFLICT', `changed since the plan was made: ${moved.map(String).join(', ')}`, {
      suggestion: 'Call again to plan from what is there now.',
    });
  if (linked === true)
    throw new ToolError('UNSUPPORTED', 'package.json, package-lock.json or node_modules is a symbolic link');
  if (code !== 0)
    throw new ToolError('CODE_ERROR', `npm ci failed; ${MANIFEST} and ${LOCKFILE} are as before`, {
      details: { stderr: String(stderr).slice(-STDERR_CHARS) },
    });
  if (Array.isArray(changed) && changed.length > 0)
    throw new ToolError('CONFLICT', `changed while npm ran: ${changed.map(String).join(', ')}`);
}

const STDERR_CHARS = 4_000;

/** Runs one of the programs; gives its report. */
async function reported(
  program: string,
  cwd: string,
  ctx: ToolContext,
  request: object,
): Promise<Record<string, unknown>> {
  const command = ctx.command({
    command: 'exec node -e "$1"',
    shell: 'bash',
    args: [program],
    cwd,
    env: ENVIRONMENT,
    stdin: JSON.stringify(request),
    report: '-',
  });
  const result = await ctx.run(command);
  const value = reportOf(result);
  if (value) return value;
  const { exitCode, stderr } = result;
  if (exitCode === 127)
    throw new ToolError('PROGRAM_MISSING', 'commands find no program `node`', {
      suggestion: 'Ask the person to run `ringfence toolchain add node`.',
      details: { program: 'node' },
    });
  throw new ToolError('CODE_ERROR', `the program that runs npm ended with ${exitCode}`, {
    details: { stderr: stderr.slice(-STDERR_CHARS) },
  });
}

function reportOf({ report }: CommandResult): Record<string, unknown> | undefined {
  try {
    const value: unknown = parseJson(report?.toString('utf8') ?? '');
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined; // A SyntaxError: it ended before it could report.
  }
}

/** The error for what npm printed. */
function refusedByNpm(stderr: string): ToolError {
  const details = { stderr: stderr.slice(-STDERR_CHARS) };
  const [, code = ''] = /^npm (?:error|ERR!) code (\w+)/m.exec(stderr) ?? [];
  if (code === 'E404') return new ToolError('NOT_FOUND', 'the registry has no such package', { details });
  if (code === 'ETARGET' || code === 'ENOVERSIONS')
    return new ToolError('NOT_FOUND', 'no version fits that is old enough', {
      suggestion: 'Ask for an older version, or accept a young one by name: accept: ["fresh:NAME@VERSION"].',
      details,
    });
  if (code === 'EALLOWGIT')
    return new ToolError('POLICY_DENIED', 'a package comes from a git repository; nothing was installed', { details });
  if (code === 'ENOENT' && /spawn(Sync)? npm/.test(stderr))
    return new ToolError('PROGRAM_MISSING', 'commands find no program `npm`', {
      suggestion: 'Ask the person to run `ringfence toolchain add npm`.',
      details: { ...details, program: 'npm' },
    });
  return new ToolError('CODE_ERROR', `npm can't plan this${code === '' ? '' : `: ${code}`}`, { details });
}

export interface Advisory {
  readonly package: string;
  readonly severity: string;
  readonly title: string;
  readonly url?: string;
}

const ADVISORIES_TOLD = 100;
const TEXT_CHARS = 300;

/** The known vulnerabilities in the report of `npm audit`; `not checked` if the registry did not answer. Pure. */
export function advisoriesOf(audit: unknown): Advisory[] | 'not checked' {
  if (!isRecord(audit) || !isRecord(audit.vulnerabilities) || audit.auditReportVersion !== 2) return 'not checked';
  const found = Object.entries(audit.vulnerabilities).flatMap(([name, it]) =>
    isRecord(it) && Array.isArray(it.via)
      ? it.via.filter(isRecord).map(
          ({ title, severity, url }): Advisory => ({
            package: name.slice(0, TEXT_CHARS).replaceAll(/\p{C}/gu, '?'),
            severity: /^[a-z]{1,16}$/.exec(String(severity))?.[0] ?? 'unknown',
            title: String(title).slice(0, TEXT_CHARS).replaceAll(/\p{C}/gu, ' '),
            ...(typeof url === 'string' && { url: url.slice(0, TEXT_CHARS) }),
          }),
        )
      : [],
  );
  return found.slice(0, ADVISORIES_TOLD);
}

/** Throws POLICY_DENIED for findings. */
export function assertNone(findings: readonly Finding[], how: string): void {
  if (findings.length === 0) return;
  const first = findings.slice(0, 5).map((it) => `${it.package} ${it.problem}`);
  const more = findings.length > first.length ? ` and ${findings.length - first.length} more` : '';
  throw new ToolError('POLICY_DENIED', `nothing was installed: ${first.join('; ')}${more}`, {
    suggestion: how,
    details: { findings: findings.slice(0, 100) },
  });
}
