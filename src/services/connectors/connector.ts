/** A connector: its file as it was added, with what the operator said about it. */
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { type NetworkLayer, type NetworkRule, ruleOfServer } from '../../policy/network.ts';
import type { Category } from '../../tools/capability.ts';
import { PinError } from '../pinned/pin-error.ts';
import { hashOf, type PinnedFiles } from '../pinned/pin-folder.ts';
import { readBySchema } from '../pinned/yaml-file.ts';
import type { NeededSecret } from '../secrets/secrets.ts';
import { type Auth, type Billing, connectorSchema, type OperationFile } from './file.ts';

/** A connector was refused; each problem begins with its position. */
export const FILE = 'connector.yaml';
export const CHOICES = 'choices.json';
export const CA = 'ca.pem';

/** What an operator said when adding a connector, beside its file. */
const choicesSchema = z.strictObject({
  base: z.string().optional(),
  private: z.boolean().optional(),
  live: z.boolean().optional(),
});
export type Choices = z.output<typeof choicesSchema>;

export interface Connector {
  readonly name: string;
  readonly title: string;
  readonly category: Category;
  readonly billing?: Billing | undefined;
  /** Without a slash at its end. */
  readonly base: string;
  readonly network: NetworkLayer;
  /** Certificates of authorities, in PEM, in place of the machine's. */
  readonly ca?: string | undefined;
  readonly auth: readonly Auth[];
  /** Whether keys of real accounts are used, where the file tells them from test keys. */
  readonly isLive: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly healthPath?: string | undefined;
  readonly operations: Readonly<Record<string, OperationFile>>;
  readonly files: PinnedFiles;
  /** Hash of all files, in hexadecimal. */
  readonly sha256: string;
}

/** Builds a connector from its files; `label` names it in problems. Throws PinError. */
export function toConnector(files: PinnedFiles, limits: Limits, label: string): Connector {
  const text = files[FILE] ?? '';
  if (Buffer.byteLength(text) > limits.connectorFileBytesMax)
    throw new PinError([`${label}: has more than ${limits.connectorFileBytesMax} bytes, the most that is read`]);
  const { value: file } = readBySchema(text, connectorSchema, { label, limits });
  const choices = choicesSchema.parse(parseJson(files[CHOICES] ?? '{}'));
  const base = (choices.base ?? file.base)?.replace(/\/+$/, '');
  if (base === undefined)
    throw new PinError([`${label}: ${file.connector} has no base, the URL of its service; name it with --base URL`]);
  const ca = files[CA];
  const isPrivate = choices.private ?? file.private;
  const auth = [file.auth].flat();
  const tokenUrls = auth.flatMap((it) => (it.kind === 'oauth2_client' ? [it.tokenUrl] : []));
  return {
    name: file.connector,
    title: file.title ?? file.connector,
    category: file.category,
    billing: file.billing,
    base,
    network: [base, ...tokenUrls].map((url) => networkRule(url, isPrivate, label)),
    ca,
    auth,
    isLive: choices.live ?? false,
    headers: file.headers,
    healthPath: file.health?.path,
    operations: file.operations,
    files,
    sha256: hashOf(files),
  };
}

/** The only destination of a URL's requests. Throws PinError for a host that no name server could know. */
function networkRule(url: string, isPrivate: boolean, label: string): NetworkRule {
  try {
    // A block of one address names it, wherever it is; a name needs `private` to lead to this machine.
    return ruleOfServer(new URL(url), isPrivate);
  } catch (error) {
    throw new PinError([`${label}: ${(error as Error).message}`]);
  }
}

/** The secrets that each request of a connector needs. */
export const secretsOf = ({ auth }: Pick<Connector, 'auth'>): NeededSecret[] =>
  auth.flatMap((it) => (it.kind === 'none' ? [] : [{ name: it.secret, setup: it.setup }]));

/** The hosts that the secrets of a connector are sent to. */
export const secretUrlsOf = ({ base, auth }: Connector): string[] => [
  base,
  ...auth.flatMap((it) => (it.kind === 'oauth2_client' ? [it.tokenUrl] : [])),
];
