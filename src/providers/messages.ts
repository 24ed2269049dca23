/** Plain data between the gateway and a provider host, beside the jobs: what crosses descriptor 3. The host is believed only so far. */
import * as z from 'zod';

/** How a provider host finds its server, and what it may tell of it. */
export interface ProviderSetup {
  readonly name: string;
  /** Era of MCP: `legacy` begins with `initialize`, `modern` is 2026-07-28 only, `auto` tries that first. */
  readonly protocol: 'legacy' | 'modern' | 'auto';
  readonly server:
    | { readonly command: readonly string[]; readonly cwd: string; readonly env: Readonly<Record<string, string>> }
    | { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** Of these, values that no result, error or log may hold. */
  readonly secrets: readonly string[];
  /** Result of one call, in bytes. */
  readonly outputBytes: number;
  /** Of its whole process tree; absent where a control group holds it to that. */
  readonly memoryMb?: number;
  /** Ringfence's, told to the server. */
  readonly version: string;
}

const jsonObject = z.record(z.string(), z.unknown());

/** A tool as its server describes it, made small enough by the host. */
export const definition = z.strictObject({
  name: z.string().min(1).max(128),
  title: z.string().max(512).optional(),
  description: z.string().max(64 * 1024),
  inputSchema: jsonObject,
  outputSchema: jsonObject.optional(),
  /** The server's hints: part of what was accepted, and believed in nothing. */
  annotations: jsonObject.optional(),
});
export type Definition = z.output<typeof definition>;

/** What a provider host tells unasked. */
export const toldByProvider = z.union([
  z.strictObject({
    tools: z.array(definition).max(4096),
    /** Tools that were left out, and why. */
    refused: z.array(z.strictObject({ name: z.string().max(128), reason: z.string().max(512) })).max(4096),
    server: z.strictObject({ name: z.string().max(128), version: z.string().max(64) }),
  }),
  /** The server can't be used any more; the host ends. */
  z.strictObject({ failed: z.string().max(2048) }),
]);
export type ToldByProvider = z.output<typeof toldByProvider>;
/** What a server offers, as last listed. */
export type Listed = Readonly<Extract<ToldByProvider, { tools: unknown }>>;

const uri = z.string().max(8192);
const mimeType = z.string().max(256);

/** What a call gives: the server's content blocks as far as they have a meaning here. */
export const providedData = z.strictObject({
  content: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('text'), text: z.string() }),
        z.strictObject({ type: z.enum(['image', 'audio']), mimeType, /** Base64. */ data: z.string() }),
        z.strictObject({
          type: z.literal('resource'),
          uri,
          mimeType: mimeType.optional(),
          text: z.string().optional(),
          data: z.string().optional(),
        }),
        z.strictObject({
          type: z.literal('resource_link'),
          uri,
          name: z.string().max(1024),
          mimeType: mimeType.optional(),
          description: z.string().max(4096).optional(),
        }),
        /** A kind that has no meaning here; its content is left out. */
        z.strictObject({ type: z.literal('other'), kind: z.string().max(64) }),
      ]),
    )
    .max(4096),
  structured: jsonObject.optional(),
});
export type ProvidedData = z.output<typeof providedData>;
