/** What the operator's settings say of packages; the gateway sends it with each job that plans or installs. */
import * as z from 'zod';

export const MANAGERS = ['npm', 'pnpm', 'yarn', 'pip', 'uv', 'cargo', 'go'] as const;
export type ManagerName = (typeof MANAGERS)[number];

export const packagesSchema = z.strictObject({
  registry: z
    .string()
    .max(2048)
    .refine((it) => /^https?:$/.test(URL.parse(it)?.protocol ?? ''), 'takes an http:// or https:// URL')
    .refine((it) => !/[@?#]/.test(it), 'holds no name, password or query')
    .optional()
    .describe('URL of the npm registry. Default: `https://registry.npmjs.org`.'),
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

export interface PackageSettings {
  /** Without a slash at its end. */
  readonly registry: string;
  readonly coolDownDays: number;
  readonly coolDownExcept: readonly string[];
}

/** The settings as jobs get them. */
export interface PackageTerms extends Pick<PackageSettings, 'registry' | 'coolDownDays' | 'coolDownExcept'> {
  /** Versions that were published later are in their cool-down; ISO 8601. */
  readonly notAfter: string;
}

export const toPackageSettings = (given: z.output<typeof packagesSchema> = {}): PackageSettings => ({
  registry: (given.registry ?? 'https://registry.npmjs.org').replace(/\/+$/, ''),
  coolDownDays: given.coolDownDays ?? 3,
  coolDownExcept: given.coolDownExcept ?? [],
});
