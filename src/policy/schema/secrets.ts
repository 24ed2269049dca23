/** The part of a policy file about secrets. */
import * as z from 'zod';
import { about, text } from './values.ts';

/** A relative path without `.`, `..`, `~` and wildcards. */
const PLAIN_PATH = /^(?![~/])(?!(?:.*\/)?\.{1,2}(?:\/|$))[^*?[\]{}\\\p{Cc}]+(?<!\/)$/u;

export const secretsPart = z.strictObject({
  redact: z
    .literal('default')
    .optional()
    .meta(about('Redaction', 'Always in force; no other value is taken.', 'default')),
  show: z
    .array(text(1024).regex(PLAIN_PATH, 'must be a plain path from the workspace root'))
    .max(64)
    .optional()
    .meta(
      about(
        'Files that are shown',
        "Files that the parent's rules on secrets leave out: paths from the workspace root, without wildcards.",
        ['config/secret-names.json'],
      ),
    ),
});
