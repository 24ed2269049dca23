/** What package_install takes and gives. */
import * as z from 'zod';
import { workspacePath } from '../tool.ts';
import { MANAGERS } from './settings.ts';

const PACKAGES_MAX = 20;
/** Each takes a yes of its own. */
const SCRIPTS_MAX = 1;

const packageName = z
  .string()
  .max(214)
  .regex(/^(@[a-z0-9~-][\w.~-]*\/)?[A-Za-z0-9~][\w.~-]*(\/[\w.~-]+)*$/, 'is no name of a package');

const version = z
  .string()
  .max(64)
  .regex(/^[\w.^~<>=|*+ -]+$/, 'is no version, range or tag')
  .refine((it) => !it.startsWith('-'), 'must not begin with -')
  .optional()
  .describe('Version, range or tag.');

export const input = z.strictObject({
  manager: z
    .enum(['auto', ...MANAGERS])
    .default('auto')
    .describe('auto: by the lockfile or manifest in the folder.'),
  packages: z
    .array(z.strictObject({ name: packageName, version }))
    .max(PACKAGES_MAX)
    .default([])
    .describe('To add or update; none: install what the lockfile says.'),
  dev: z.boolean().default(false).describe('Add them for development only.'),
  projectPath: workspacePath('Folder with package.json or its kin.').default('.'),
  allowScripts: z
    .array(packageName)
    .max(SCRIPTS_MAX)
    .default([])
    .describe('A package whose install scripts run, without network; a person is asked about each, one a call.'),
  accept: z
    .array(z.string().regex(/^(fresh|similar):[^\s]{1,300}$/, 'takes fresh:NAME@VERSION and similar:NAME'))
    .max(100)
    .default([])
    .describe('Findings of an earlier answer that are accepted by name; a person is asked about each such call.'),
});
export type Input = z.output<typeof input>;

const { dev, projectPath } = input.shape;
/** One package by npm. */
export const npmInput = z.strictObject({
  package: packageName.describe('Name of the package.'),
  version,
  dev,
  projectPath,
});

export const packageShape = z.strictObject({
  name: z.string(),
  version: z.string(),
  direct: z.boolean(),
  integrity: z.string(),
  publishedAt: z.string().optional(),
  hasScript: z.boolean(),
  license: z.string().optional(),
});

export const output = z.strictObject({
  added: z.array(packageShape),
  removed: z.array(z.strictObject({ name: z.string(), version: z.string() })),
  changed: z.array(packageShape.extend({ from: z.string().describe('The version before.') })),
  scriptsSkipped: z.array(z.string()).describe('Packages with install scripts that have not run.'),
  scriptsRun: z
    .array(z.strictObject({ script: z.string(), exitCode: z.int(), output: z.string() }))
    .optional()
    .describe('With allowScripts: the scripts that ran, up to the first that failed.'),
  lockfileDiff: z.string().describe('The difference of the lockfile in lines.'),
  advisories: z
    .union([
      z.literal('not checked'),
      z.array(
        z.strictObject({ package: z.string(), severity: z.string(), title: z.string(), url: z.string().optional() }),
      ),
    ])
    .describe('Known vulnerabilities of the whole lockfile.'),
  restoreCommand: z.string().describe('After an undo: what brings the installed files back to the lockfile.'),
  lockfileHash: z.string().describe('SHA-256 of the lockfile that was planned, shown and installed.'),
});
export type Output = z.output<typeof output>;
