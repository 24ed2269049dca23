/** Rules for TypeScript and JavaScript. */
import { BUILT, INPUT, KNOWN_SECRET, SECRET_NAME, SECRET_VALUE, SQL_BUILT, WEAK_HASH } from './patterns.ts';
import { rules } from './rule.ts';

export const SCRIPT_RULES = rules('script', [
  {
    rule: 'eval',
    severity: 'high',
    message: 'Text is run as code; whoever can change the text runs code here.',
    kinds: ['call_expression', 'new_expression'],
    fields: { callee: /^((window|globalThis|global)\.)?(eval|Function)$/, arguments: /./ },
    except: { arguments: /^\(\s*(['"][^'"]*['"]|`[^`$]*`)\s*\)$/ },
  },
  {
    rule: 'timer-text',
    severity: 'medium',
    message: 'A timer runs a text as code; give it a function.',
    kinds: ['call_expression'],
    fields: { callee: /^(window\.)?set(Timeout|Interval)$/, arguments: /^\(\s*(['"`]|[\w$.]+\s*\+\s*['"])/ },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell command is built of parts; use execFile with a list of arguments.',
    kinds: ['call_expression'],
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
    kinds: ['call_expression'],
    fields: {
      callee: /(^|\.)(spawn|spawnSync|execFile|execFileSync)$/,
      arguments: /(\$\{|['"]\s*\+)[\s\S]*\bshell\s*:\s*(true|['"])/,
    },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell runs a command that is built of parts; pass values as arguments of their own.',
    kinds: ['call_expression'],
    fields: {
      callee: /(^|\.)(spawn|spawnSync|execFile|execFileSync)$/,
      arguments:
        /^\(\s*['"](\/bin\/)?(ba|z|da)?sh['"],\s*\[\s*['"]-\w*c['"],\s*(`[^`]*\$\{|['"][^'"]*['"]\s*\+|\w+\s*\+)/,
    },
  },
  {
    rule: 'sql-injection',
    severity: 'critical',
    message: 'A query is built of parts; use parameters.',
    kinds: ['call_expression'],
    fields: {
      callee: /\.(query|execute|raw|exec|prepare|all|get|run|\$queryRawUnsafe|\$executeRawUnsafe)$/,
      arguments: SQL_BUILT,
    },
  },
  {
    rule: 'path-traversal',
    severity: 'high',
    message: 'A path is built of what a request says; check that it stays in its directory.',
    kinds: ['call_expression'],
    fields: {
      callee:
        /^((path|fs|fsp|fs\.promises)\.)?(join|resolve|readFile|readFileSync|createReadStream|writeFile|writeFileSync|unlink|unlinkSync|open|openSync|rm|rmSync)$|\.sendFile$/,
      arguments: INPUT,
    },
  },
  {
    rule: 'weak-hash',
    severity: 'medium',
    message: 'MD5 and SHA-1 can be forged; use SHA-256.',
    kinds: ['call_expression'],
    fields: { callee: /(^|\.)(createHash|createHmac)$/, arguments: WEAK_HASH },
  },
  {
    rule: 'weak-cipher',
    severity: 'high',
    message: 'The cipher is broken, or has no initialization vector; use AES-GCM.',
    kinds: ['call_expression'],
    fields: { callee: /(^|\.)(createCipheriv|createDecipheriv)$/, arguments: /^\(\s*['"](des|rc4|bf|rc2|[\w-]*-ecb)/i },
  },
  {
    rule: 'weak-cipher',
    severity: 'high',
    message: 'createCipher derives its key badly; use createCipheriv.',
    kinds: ['call_expression'],
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
    rule: 'unsafe-html',
    severity: 'high',
    message: 'Text becomes HTML; a script in it would run.',
    kinds: ['assignment_expression'],
    fields: { key: /\.(innerHTML|outerHTML)$/, value: /./ },
    except: { value: /^(['"][^'"]*['"]|`[^`$]*`|''|DOMPurify\.|\w*[sS]anitize\w*\()/ },
  },
  {
    rule: 'unsafe-html',
    severity: 'high',
    message: 'Text becomes HTML; a script in it would run.',
    kinds: ['call_expression'],
    fields: {
      callee: /^document\.write(ln)?$|\.insertAdjacentHTML$/,
      arguments: /\$\{|\+|^\(\s*[\w$.]+\s*\)|,\s*[\w$.]+\s*\)$/,
    },
  },
  {
    rule: 'unsafe-html',
    severity: 'high',
    message: 'Text becomes HTML; a script in it would run.',
    kinds: ['jsx_attribute'],
    fields: { text: /^dangerouslySetInnerHTML=/ },
    except: { text: /__html:\s*(['"][^'"]*['"]|DOMPurify\.|\w*[sS]anitize\w*\()/ },
  },
  {
    rule: 'certificates-unchecked',
    severity: 'high',
    message: 'Certificates are not checked, so that anyone in between can read along.',
    kinds: ['pair', 'assignment_expression'],
    fields: { key: /^rejectUnauthorized$|NODE_TLS_REJECT_UNAUTHORIZED/, value: /^(false|['"]?0['"]?)$/ },
  },
  {
    rule: 'open-redirect',
    severity: 'medium',
    message: 'A redirection goes where the request says.',
    kinds: ['call_expression'],
    fields: { callee: /\.redirect$/, arguments: INPUT },
  },
  {
    rule: 'request-forgery',
    severity: 'high',
    message: 'A request goes where another request says; allow only known hosts.',
    kinds: ['call_expression'],
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
  {
    rule: 'secret-in-code',
    severity: 'high',
    message: 'A secret stands in the code; read it from the environment.',
    kinds: ['variable_declarator', 'assignment_expression', 'pair', 'public_field_definition'],
    fields: { key: SECRET_NAME, value: SECRET_VALUE },
  },
  {
    rule: 'secret-in-code',
    severity: 'critical',
    message: 'A key of a known kind stands in the code; revoke it.',
    kinds: ['string', 'template_string'],
    fields: { text: KNOWN_SECRET },
  },
]);
