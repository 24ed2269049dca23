/** Rules for TypeScript and JavaScript. */
import { BUILT, INPUT, SQL_BUILT, WEAK_HASH } from './patterns.ts';
import { rules } from './rule.ts';
import {
  BUILT_QUERY,
  CODE_OF_TEXT,
  FORGEABLE_HASH,
  REQUESTED_PATH,
  secretsIn,
  UNCHECKED_CERTIFICATES,
  UNSAFE_HTML,
} from './shared.ts';

export const SCRIPT_RULES = rules('script', [
  {
    ...CODE_OF_TEXT,
    kinds: ['call_expression', 'new_expression'],
    fields: { callee: /^((window|globalThis|global)\.)?(eval|Function)$/, arguments: /./ },
    except: { arguments: /^\(\s*(['"][^'"]*['"]|`[^`$]*`)\s*\)$/ },
  },
  {
    rule: 'timer-text',
    severity: 'medium',
    message: 'A timer runs a text as code; give it a function.',
    fields: { callee: /^(window\.)?set(Timeout|Interval)$/, arguments: /^\(\s*(['"`]|[\w$.]+\s*\+\s*['"])/ },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell command is built of parts; use execFile with a list of arguments.',
    fields: {
      callee:
        /^((cp|child_process|childProcess|require\(['"](node:)?child_process['"]\))\.)?(exec|execSync|execAsync)$/,
      arguments: BUILT,
    },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A command of a shell is built of parts; leave `shell` out.',
    fields: {
      callee: /(^|\.)(spawn|spawnSync|execFile|execFileSync)$/,
      arguments: /(\$\{|['"]\s*\+)[\s\S]*\bshell\s*:\s*(true|['"])/,
    },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell runs a command that is built of parts; pass values as arguments of their own.',
    fields: {
      callee: /(^|\.)(spawn|spawnSync|execFile|execFileSync)$/,
      arguments:
        /^\(\s*['"](\/bin\/)?(ba|z|da)?sh['"],\s*\[\s*['"]-\w*c['"],\s*(`[^`]*\$\{|['"][^'"]*['"]\s*\+|\w+\s*\+)/,
    },
  },
  {
    ...BUILT_QUERY,
    fields: {
      callee: /\.(query|execute|raw|exec|prepare|all|get|run|\$queryRawUnsafe|\$executeRawUnsafe)$/,
      arguments: SQL_BUILT,
    },
  },
  {
    ...REQUESTED_PATH,
    fields: {
      callee:
        /^((path|fs|fsp|fs\.promises)\.)?(join|resolve|readFile|readFileSync|createReadStream|writeFile|writeFileSync|unlink|unlinkSync|open|openSync|rm|rmSync)$|\.sendFile$/,
      arguments: INPUT,
    },
  },
  {
    ...FORGEABLE_HASH,
    fields: { callee: /(^|\.)(createHash|createHmac)$/, arguments: WEAK_HASH },
  },
  {
    rule: 'weak-cipher',
    severity: 'high',
    message: 'The cipher is broken, or has no initialization vector; use AES-GCM.',
    fields: { callee: /(^|\.)(createCipheriv|createDecipheriv)$/, arguments: /^\(\s*['"](des|rc4|bf|rc2|[\w-]*-ecb)/i },
  },
  {
    rule: 'weak-cipher',
    severity: 'high',
    message: 'createCipher derives its key badly; use createCipheriv.',
    fields: { callee: /^(crypto\.)?create(Cipher|Decipher)$/ },
  },
  {
    rule: 'weak-random',
    severity: 'medium',
    message: 'The number can be guessed; use crypto.getRandomValues.',
    kinds: ['variable_declarator', 'assignment_expression', 'pair'],
    fields: { key: /(token|secret|password|session_?id|nonce|salt|otp|api_?key)$/i, value: /\bMath\.random\(/ },
  },
  {
    ...UNSAFE_HTML,
    kinds: ['assignment_expression'],
    fields: { key: /\.(innerHTML|outerHTML)$/, value: /./ },
    except: { value: /^(['"][^'"]*['"]|`[^`$]*`|''|DOMPurify\.|\w*[sS]anitize\w*\()/ },
  },
  {
    ...UNSAFE_HTML,
    fields: {
      callee: /^document\.write(ln)?$|\.insertAdjacentHTML$/,
      arguments: /\$\{|\+|^\(\s*[\w$.]+\s*\)|,\s*[\w$.]+\s*\)$/,
    },
  },
  {
    ...UNSAFE_HTML,
    kinds: ['jsx_attribute'],
    fields: { text: /^dangerouslySetInnerHTML=/ },
    except: { text: /__html:\s*(['"][^'"]*['"]|DOMPurify\.|\w*[sS]anitize\w*\()/ },
  },
  {
    ...UNCHECKED_CERTIFICATES,
    kinds: ['pair', 'assignment_expression'],
    fields: { key: /^rejectUnauthorized$|NODE_TLS_REJECT_UNAUTHORIZED/, value: /^(false|['"]?0['"]?)$/ },
  },
  {
    rule: 'open-redirect',
    severity: 'medium',
    message: 'A redirection goes where the request says.',
    fields: { callee: /\.redirect$/, arguments: INPUT },
  },
  {
    rule: 'request-forgery',
    severity: 'high',
    message: 'A request goes where another request says; allow only known hosts.',
    fields: { callee: /^(fetch|axios(\.\w+)?|got(\.\w+)?|https?\.(get|request))$/, arguments: INPUT },
    except: { arguments: /^\(\s*['"`]https?:\/\/[\w.-]+\// },
  },
  {
    rule: 'pattern-injection',
    severity: 'medium',
    message: 'A regular expression is what the request says; it may never end.',
    kinds: ['new_expression', 'call_expression'],
    fields: { callee: /^RegExp$/, arguments: INPUT },
  },
  {
    rule: 'token-unsigned',
    severity: 'high',
    message: 'A token without a signature is accepted.',
    kinds: ['pair'],
    fields: { key: /^algorithms?$/, value: /^\[?\s*['"]none['"]/i },
  },
  ...secretsIn(
    ['variable_declarator', 'assignment_expression', 'pair', 'public_field_definition'],
    ['string', 'template_string'],
  ),
]);
