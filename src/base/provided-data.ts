/** The data of a result of an MCP server, as the daemon and its MCP face pass it on. */
import * as z from 'zod';

const jsonObject = z.record(z.string(), z.unknown());
const uri = z.string().max(8192);
const mimeType = z.string().max(256);

/** The data of a result: the server's content blocks of supported kinds. */
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
        /** A block of an unsupported kind; its content is left out. */
        z.strictObject({ type: z.literal('other'), kind: z.string().max(64) }),
      ]),
    )
    .max(4096),
  structured: jsonObject.optional(),
});
export type ProvidedData = z.output<typeof providedData>;
