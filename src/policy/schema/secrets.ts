/** The part of a policy file about secrets. */
import * as z from 'zod';
import { optional, text } from './values.ts';

/** A relative path without `.`, `..`, `~` and wildcards. */
const PLAIN_PATH = /^(?![~/])(?!(?:.*\/)?\.{1,2}(?:\/|$))[^*?[\]{}\\\p{Cc}]+(?<!\/)$/u;

export const secretsPart = z.strictObject({
  redact: optional(z.literal('default'), 'Redaction', 'Always in force; no other value is taken.', 'default'),
  show: optional(
    z.array(text(1024).regex(PLAIN_PATH, 'must be a plain path from the workspace root')).max(64),
    'Files that are shown',
    "Files that the parent's rules on secrets leave out: paths from the workspace root, without wildcards.",
    ['config/secret-names.json'],
  ),
});
