/** The key `search` of config.yaml: the service that `web_search` asks. */
import * as z from 'zod';
import { readCertificates } from '../../certificates.ts';
import { secretName } from '../../secrets/secret-files.ts';
import { problemOfTransport } from '../../secrets/secrets.ts';
import { httpUrl } from '../file.ts';

/** The services that a file in connectors/search/ describes. */
export const SEARCH_PROVIDERS = ['searxng', 'brave', 'tavily', 'exa', 'kagi'] as const;

export const searchSchema = z
  .strictObject({
    provider: z.enum(SEARCH_PROVIDERS).describe('The service that `web_search` asks.'),
    url: httpUrl.optional().describe('URL of the instance of SearXNG, or of a server in place of the service.'),
    secret: secretName
      .optional()
      .describe('Name of the secret with the key. Default: `brave_key`, `tavily_key`, `exa_key`, `kagi_key`; none.'),
    ca: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe("File with certificates of authorities (PEM), in place of the machine's."),
    private: z.boolean().optional().describe('Whether the service may be on this machine or its networks.'),
  })
  .superRefine(({ provider, url, secret }, context) => {
    if (provider === 'searxng' && url === undefined)
      context.addIssue({ code: 'custom', path: ['url'], message: 'is missing: the URL of the instance of SearXNG' });
    const problem = url === undefined || !URL.canParse(url) ? undefined : problemOfTransport(new URL(url));
    // A query to an instance without a key may go unencrypted within a network.
    if (problem !== undefined && (provider !== 'searxng' || secret !== undefined))
      context.addIssue({ code: 'custom', path: ['url'], message: problem });
  });

export interface SearchSettings {
  readonly provider: (typeof SEARCH_PROVIDERS)[number];
  readonly url?: string | undefined;
  readonly secret?: string | undefined;
  /** Certificates of authorities in PEM. */
  readonly ca?: string | undefined;
  readonly private: boolean;
}

/** The settings with the certificates that they name. Throws an Error that names the problem. */
export function toSearchSettings(
  { provider, url, secret, ca, private: isPrivate = false }: z.output<typeof searchSchema>,
  { toPath }: { toPath(path: string): string },
): SearchSettings {
  return {
    provider,
    private: isPrivate,
    url,
    secret,
    ca: ca && readCertificates(toPath(ca), ({ message }) => new Error(`search.ca: ${message}`)),
  };
}
