/** What the gateway asks a host about its commands in the background, instead of a call. */
import * as z from 'zod';

export type BackgroundJob =
  /** Tells how these commands are. The result is `{ commands }`; those that the host does not have are left out. */
  | { readonly list: readonly string[] }
  /** Ends when the command has ended, or when nobody can ask about it any more. */
  | { readonly handle: string; readonly waitFor: 'end' | 'forgotten' }
  /** Ends everything that the command started. */
  | { readonly handle: string; readonly stop: true }
  /** Opens a port of the command until the job is aborted or the command ends; the first output tells that it is open. */
  | ({ readonly handle: string } & { readonly forward: PortRequest });

export interface PortRequest {
  readonly port: number;
  /** Name of the Unix socket, in the folder that the host and the daemon share. */
  readonly socket: string;
}

const listed = z.object({
  commands: z.array(
    z.object({
      handle: z.string(),
      exited: z.boolean(),
      ageMs: z.int().nonnegative(),
      seq: z.int().nonnegative(),
      ports: z.array(z.int().min(1).max(65_535)).max(64).optional(),
    }),
  ),
});
export type BackgroundNow = z.output<typeof listed>['commands'][number];

/** What a host answered to `list`; empty if that is no such answer, since a host may be compromised. */
export function listedIn(data: unknown): BackgroundNow[] {
  const parsed = listed.safeParse(data);
  return parsed.success ? parsed.data.commands : [];
}
