/** What the operator's settings say of packages; the gateway sends it with each job that plans or installs. */
import * as z from 'zod';
import type { RegistryKind } from '../context/requests.ts';

export const MANAGERS = ['npm', 'pnpm', 'yarn', 'pip', 'uv', 'cargo', 'go'] as const;
export type ManagerName = (typeof MANAGERS)[number];

export const indexUrl = z
  .string()
  .max(2048)
  .refine((it) => /^https?:$/.test(URL.parse(it)?.protocol ?? ''), 'takes an http:// or https:// URL')
  .refine((it) => !/[@?#]/.test(it), 'holds no name, password or query');

export const packagesSchema = z.strictObject({
  registry: indexUrl.optional().describe('URL of the npm registry. Default: `https://registry.npmjs.org`.'),
  pythonIndex: indexUrl.optional().describe('URL of the index of Python packages. Default: `https://pypi.org/simple`.'),
  pythonFiles: indexUrl
    .optional()
    .describe(
      'URL of the host that has the files of that index. Default: that of `pythonIndex`, or `https://files.pythonhosted.org`.',
    ),
  coolDownDays: z
    .number()
    .min(0)
    .max(365)
    .optional()
    .describe('Age in days below which `package_install` takes no version that was not accepted by name. Default: 3.'),
  coolDownExcept: z
    .array(z.string().min(1).max(256))
    .max(256)
    .optional()
    .describe('Packages without that bound: names, or `@scope/*`. Default: none.'),
});

/** URLs are without a slash at their end. */
export interface PackageSettings {
  readonly registry: string;
  readonly pythonIndex: string;
  readonly pythonFiles: string;
  readonly coolDownDays: number;
  readonly coolDownExcept: readonly string[];
}

/** The settings as jobs get them. */
export interface PackageTerms extends PackageSettings {
  /** Versions that were published later are in their cool-down; ISO 8601. */
  readonly notAfter: string;
}

const bare = (url: string): string => url.replace(/\/+$/, '');

/** The URLs of the hosts that an installation reaches. */
export const registriesOf = (
  kind: RegistryKind,
  { registry, pythonIndex, pythonFiles }: PackageSettings,
): readonly string[] => (kind === 'npm' ? [registry] : [pythonIndex, pythonFiles]);

export const toPackageSettings = (given: z.output<typeof packagesSchema> = {}): PackageSettings => ({
  registry: bare(given.registry ?? 'https://registry.npmjs.org'),
  pythonIndex: bare(given.pythonIndex ?? 'https://pypi.org/simple'),
  pythonFiles: bare(given.pythonFiles ?? given.pythonIndex ?? 'https://files.pythonhosted.org'),
  coolDownDays: given.coolDownDays ?? 3,
  coolDownExcept: given.coolDownExcept ?? [],
});
