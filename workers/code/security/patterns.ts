/** Patterns that rules of several languages share. */

/** A text made of parts: a template with a value, or a text and `+`. Only the first argument counts. */
export const BUILT = /^\(\s*(`[^`]*\$\{|['"][^'"\n]*['"]\s*\+|[\w$.[\]]+\s*\+\s*['"`])/;
export const PYTHON_BUILT = /^\(\s*(f['"]|("[^"\n]*"|'[^'\n]*')\s*(%|\+|\.format\()|\w+\s*[+%])/;
export const INPUT = /\b(req|request|ctx|event)\s*\.\s*(query|params|body|headers|cookies|args|form|url)\b/;
export const SQL_BUILT =
  /^\(\s*(`\s*(select|insert|update|delete|drop|alter)\b[^`]*\$\{|['"]\s*(select|insert|update|delete|drop|alter)\b[^'"\n]*['"]?.*['"]\s*\+)/i;
export const SECRET_NAME =
  /(^|[._"'\]]|[a-z0-9](?=[A-Z])|_)(password|passwd|secret|api_?key|access_?key|private_?key|auth_?token|token|client_?secret)['"]?$/i;
/** A value that looks like a real one: long, of one word, and no placeholder. */
export const SECRET_VALUE =
  /^['"`](?!.*(xxx|example|placeholder|changeme|your|dummy|sample|test|fake|<|\$\{|process\.env))(?=[^'"`]*\d)[\w+/=.@!#%^*~-]{12,}['"`]$/i;
export const KNOWN_SECRET =
  /^f?['"`]{1,3}(AKIA[0-9A-Z]{16}|gh[pousr]_\w{36,}|sk_live_\w{16,}|xox[bpars]-[\w-]{10,}|glpat-[\w-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----)/;
export const WEAK_HASH = /^\(\s*['"](md5|md4|sha1|ripemd160)['"]/i;
