/**
 * Messages between the gateway and a provider host in addition to jobs, as plain data on descriptor 3. Everything from the host is
 * validated.
 */
import * as z from 'zod';

/** Instructions for a provider host: how to start its server, and what it may report. */
export interface ProviderSetup {
  readonly name: string;
  /** Era of MCP: `legacy` begins with `initialize`, `modern` is 2026-07-28 only, `auto` tries modern first. */
  readonly protocol: 'legacy' | 'modern' | 'auto';
  readonly server:
    | { readonly command: readonly string[]; readonly cwd: string; readonly env: Readonly<Record<string, string>> }
    | { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** The secret ones among these values, which must not appear in results, errors or logs. */
  readonly secrets: readonly string[];
  /** Most bytes of one call's result. */
  readonly outputBytes: number;
  /** Bound of the whole process tree in MiB; absent if a control group enforces it. */
  readonly memoryMb?: number;
  /** Version of Ringfence, sent to the server. */
  readonly version: string;
}

const jsonObject = z.record(z.string(), z.unknown());

/** A tool as its server describes it, bounded in size by the host. */
export const definition = z.strictObject({
  name: z.string().min(1).max(128),
  title: z.string().max(512).optional(),
  description: z.string().max(64 * 1024),
  inputSchema: jsonObject,
  outputSchema: jsonObject.optional(),
  /** The server's hints: part of what was accepted, but never trusted. */
  annotations: jsonObject.optional(),
});
export type ToolDefinition = z.output<typeof definition>;

/** Notifications of a provider host. */
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
export type ProviderMessage = z.output<typeof toldByProvider>;
/** A server's tools as last listed. */
export type ListedTools = Readonly<Extract<ProviderMessage, { tools: unknown }>>;
