/** Bytes that a server may send. */

/** Bytes of a login, and of the settings that a server tells. */
export const LOGIN_BYTES_MAX = 64 * 1024;
/** Bytes of an answer to a statement of ours that returns a few words. */
export const SHORT_BYTES_MAX = 256 * 1024;
