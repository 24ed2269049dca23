/** zod schemas of changes that do not stay. */
import * as z from 'zod';

export const quarantineAnswer = z.strictObject({
  items: z
    .array(z.strictObject({ path: z.string(), at: z.iso.datetime(), callId: z.string(), runBy: z.string() }))
    .describe('What is still in quarantine for the workspace.'),
  changed: z
    .array(z.strictObject({ path: z.string(), callId: z.string(), how: z.enum(['run', 'obeyed']), by: z.string() }))
    .describe(
      'Ordinary files that programs of the person run once they are called, or that agents obey, and the call that changed each last.',
    ),
  done: z.array(z.string()).describe('Paths that were put back or removed.'),
  errors: z.array(z.strictObject({ path: z.string(), code: z.string(), message: z.string() })),
});
