/** Notifications between the daemon and `ringfence mcp`. The bridge loads this file at each start, so it imports nothing. */

/** The bridge sends it first; clients that use the socket directly may omit it. */
export const OPEN_METHOD = 'notifications/ringfence/open';
/** The daemon sends it to those that sent `OPEN_METHOD`: it hands over to a new one, and begins no more calls. */
export const CLOSING_METHOD = 'notifications/ringfence/closing';
/** The reason in `CLOSING_METHOD`, and in the details of an error for a call that has not begun. */
export const UPGRADE = 'upgrade';

/** The line that opens a connection with the options of `parseOpening`. */
export const openLine = (params: object): string =>
  `${JSON.stringify({ jsonrpc: '2.0', method: OPEN_METHOD, params })}\n`;
