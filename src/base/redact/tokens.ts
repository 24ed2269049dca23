/** Tokens recognised by how they begin. Covers the kinds of @secretlint/secretlint-rule-preset-recommend and some more. */
import { CONTEXT_CHARS, characterRun, endOf, isPlaceholder, isRandom, type Rule } from './rule.ts';
import { LiteralSearch } from './search.ts';

/**
 * An expression for what may precede a token: such a character, or the end of an escape (`
 * `, `%3D`, `\u0022`) or of a terminal colour.
 */
const after = (char: string) =>
  new RegExp(`(?:^|${char}|\\\\[nrt]|%[0-9A-Fa-f]{2}|\\\\u[0-9A-Fa-f]{4}|\\x1b\\[[0-9;]{0,12}m)$`);
const AFTER_NO_LETTER = after('[^A-Za-z]');
/** For tokens whose literal is a few letters, which occur anywhere within base64. */
const AFTER_NO_ALNUM = after('[^A-Za-z0-9]');
/** For tokens that begin a word: `disk-` is no `sk-`, and `sk-sk-sk-` is examined once, which saves time. */
const AFTER_NO_WORD = after('[^\\w.-]');

/** Number of characters that decide. If 48 do not, 100 would not either, and each literal costs reading them. */
const WINDOW = 48;

interface TokenShape {
  /** Fewest characters after the literal. */
  readonly min: number;
  readonly chars?: string;
  /** Expression for the text before the literal. */
  readonly after?: RegExp;
  /**
   * Number of characters after the literal that decide; the greater of WINDOW and `min` when absent. A longer token is hidden completely.
   */
  readonly window?: number;
  /** Whether those characters belong to a secret; random ones do when absent. */
  readonly accepts?: (body: string) => boolean;
}

const ALNUM = 'A-Za-z0-9';
const WORD = 'A-Za-z0-9_';
const URL_SAFE = '\\-A-Za-z0-9_';
const BASE64 = 'A-Za-z0-9+/=';

function token(kind: string, literals: string, shape: TokenShape): Rule {
  const { min, chars = ALNUM, after, accepts = isRandom } = shape;
  const body = characterRun(chars, shape.window ?? Math.max(min, WINDOW));
  return {
    literals: literals.split(' '),
    match(candidate) {
      const { text, at, end } = candidate;
      if (after && !after.test(text.slice(Math.max(0, at - CONTEXT_CHARS), at))) return 'none';
      const to = endOf(body, end, candidate);
      if (typeof to === 'string') return to;
      if (to - end < min || !accepts(text.slice(end, to))) return 'none';
      return { kind, from: at, to, rest: body.rest };
    },
  };
}

const matches = (pattern: RegExp) => (body: string) => pattern.test(body) && isRandom(body);
/** `sk-fading-circle` is a CSS class; a key has a long part without dashes. */
const hasRandomPart = (body: string) =>
  !isPlaceholder(body) && body.split(/[-_]/).some((it) => it.length >= 16 && /\d/.test(it) && isRandom(it));
const isJwt = (body: string) => /^[\w-]{6,}\.eyJ/.test(body) || /^hbGciOi[\w-]*\.[\w-]{20}/.test(body);
const HEX = '0123456789abcdef'.split('');

/** Token rules; if several share a literal, the first that finds a secret counts. */
export const TOKENS: readonly Rule[] = [
  // One real id in thirty has no digit, so ids need not look random.
  token('aws-access-key-id', 'AKIA ASIA', {
    min: 16,
    after: AFTER_NO_ALNUM,
    accepts: (body) => /^[A-Z0-9]{16}$/.test(body) && !isPlaceholder(body),
  }),
  // The newer form `ghs_<app>_<JWT>`; the older pattern would end at its dots.
  token('github-token', 'ghs_', { min: 24, chars: `${URL_SAFE}.`, accepts: (body) => /^\d{1,20}_eyJ/.test(body) }),
  token('github-token', 'ghp_ gho_ ghu_ ghs_ ghr_', { min: 36, chars: WORD }),
  token('github-token', 'github_pat_', { min: 40, chars: WORD }),
  token('gitlab-token', 'glpat- gldt- glrt- glptt- glcbt-', { min: 20, chars: `${URL_SAFE}.` }),
  token('npm-token', 'npm_', { min: 36, chars: WORD }),
  token('pypi-token', 'pypi-AgEI', { min: 50, chars: URL_SAFE }),
  token('rubygems-token', 'rubygems_', { min: 48, accepts: matches(/^[0-9a-f]{48}/) }),
  token('slack-token', 'xox xapp', {
    min: 8,
    chars: `\\-.${ALNUM}`,
    after: AFTER_NO_LETTER,
    accepts: matches(/^[a-z]?(?:\.[a-z]{4})?-[^\d]*\d/),
  }),
  token('slack-webhook', 'hooks.slack.com/services/', {
    min: 6,
    chars: `${ALNUM}/`,
    accepts: matches(/^T[^/]{1,40}\/B[^/]{1,40}\/./),
  }),
  token('discord-webhook', 'discord.com/api/webhooks/', { min: 40, chars: `${URL_SAFE}/` }),
  token('stripe-key', 'sk_live_ sk_test_ rk_live_ rk_test_', { min: 16 }),
  token('stripe-webhook-secret', 'whsec_', { min: 24, chars: BASE64 }),
  token('anthropic-key', 'sk-ant-', { min: 24, chars: URL_SAFE, after: AFTER_NO_WORD }),
  token('openai-key', 'sk-proj- sk-svcacct- sk-admin-', { min: 40, chars: URL_SAFE, after: AFTER_NO_WORD }),
  token('openai-key', 'sk-', { min: 20, chars: URL_SAFE, after: AFTER_NO_WORD, accepts: hasRandomPart }),
  token('google-key', 'AIza', { min: 35, chars: URL_SAFE, after: AFTER_NO_ALNUM }),
  token('google-token', 'ya29. GOCSPX-', { min: 20, chars: URL_SAFE }),
  token('sendgrid-key', 'SG.', {
    min: 40,
    chars: `${URL_SAFE}.`,
    after: AFTER_NO_WORD,
    accepts: matches(/^[\w-]{1,64}\.[\w-]{16}/),
  }),
  token('twilio-key', HEX.map((it) => `SK${it}`).join(' '), {
    min: 31,
    after: AFTER_NO_ALNUM,
    accepts: matches(/^[0-9a-f]{31}$/),
  }),
  token('shopify-token', 'shpat_ shpss_ shppa_ shpca_', { min: 32 }),
  token('onepassword-token', 'ops_ey', { min: 80, chars: BASE64 }),
  token('linear-key', 'lin_api_', { min: 32, chars: WORD }),
  token('notion-token', 'ntn_', { min: 40 }),
  token('databricks-token', 'dapi', {
    min: 32,
    chars: `\\-${ALNUM}`,
    after: AFTER_NO_LETTER,
    accepts: matches(/^[0-9A-Fa-f]{32}/),
  }),
  token('huggingface-token', 'hf_', { min: 34, after: AFTER_NO_LETTER }),
  token('groq-key', 'gsk_', { min: 40 }),
  token('docker-token', 'dckr_pat_', { min: 27, chars: URL_SAFE }),
  token('figma-token', 'figd_', { min: 40, chars: URL_SAFE }),
  token('cloudflare-token', 'cfk_ cfut_ cfat_', { min: 40 }),
  token('tailscale-key', 'tskey-', { min: 24, chars: URL_SAFE }),
  token('grafana-token', 'glc_', { min: 32, chars: BASE64 }),
  token('grafana-token', 'glsa_', { min: 41, chars: WORD }),
  token('vault-token', 'hvs. hvb. hvr.', { min: 24, chars: URL_SAFE, after: AFTER_NO_LETTER }),
  token('vercel-token', 'vcp_ vci_ vca_ vcr_ vck_', { min: 20 }),
  token('digitalocean-token', 'dop_v1_', { min: 64, accepts: matches(/^[0-9a-f]{64}/) }),
  token('age-key', 'AGE-SECRET-KEY-1', { min: 50 }),
  token('azure-key', 'AccountKey= SharedAccessKey=', { min: 40, chars: BASE64 }),
  token('jwt', 'eyJ', { min: 20, chars: `${URL_SAFE}.`, after: AFTER_NO_WORD, window: 2048, accepts: isJwt }),
];

const search = new LiteralSearch(TOKENS);

/** The kind of token that a value is; undefined if it is none. */
export function tokenKind(value: string): string | undefined {
  const found = search.next(value, 0);
  if (found?.at !== 0) return undefined;
  const secrets = found.rules.map((it) => it.match({ text: value, at: 0, end: found.end, final: true }));
  return secrets.find((it) => typeof it === 'object')?.kind;
}
