/** The name of a header that a request may have. */
import * as z from 'zod';

/** Headers that concern the connection, or could split one request into two. */
const OURS =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|accept-encoding|expect)$/i;

export const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$/, 'is no header name')
  .refine((it) => !OURS.test(it), 'is set by Ringfence');
