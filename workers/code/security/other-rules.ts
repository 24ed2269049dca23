/** Rules for Python, Go and Rust. */
import { INPUT, PYTHON_BUILT, WEAK_HASH } from './patterns.ts';
import { rules } from './rule.ts';
import {
  BUILT_COMMAND,
  BUILT_QUERY,
  CODE_OF_TEXT,
  FORGEABLE_HASH,
  REQUESTED_PATH,
  secretsIn,
  UNCHECKED_CERTIFICATES,
} from './shared.ts';

export const PYTHON_RULES = rules('python', [
  {
    ...CODE_OF_TEXT,
    fields: { callee: /^(eval|exec)$/, arguments: /./ },
    except: { arguments: /^\(\s*['"][^'"]*['"]\s*\)$/ },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell command is built of parts; use subprocess.run with a list.',
    fields: { callee: /^(os\.(system|popen)|commands\.getoutput|subprocess\.getoutput)$/, arguments: PYTHON_BUILT },
  },
  {
    rule: 'command-injection',
    severity: 'critical',
    message: 'A shell runs a command that is no fixed text; give a list and no shell.',
    fields: { callee: /^subprocess\.\w+$/, arguments: /\bshell\s*=\s*True\b/ },
    except: { arguments: /^\(\s*(['"])[^'"{]*\1\s*,/ },
  },
  {
    ...BUILT_QUERY,
    fields: { callee: /\.(execute|executemany|executescript|raw)$/, arguments: PYTHON_BUILT },
  },
  {
    rule: 'unsafe-load',
    severity: 'high',
    message: 'Loading this data can run code.',
    fields: {
      callee: /^(c?[pP]ickle|marshal|shelve|dill|jsonpickle)\.(loads?|open|decode)$|^yaml\.(unsafe_load|full_load)$/,
    },
  },
  {
    rule: 'unsafe-load',
    severity: 'high',
    message: 'yaml.load can run code; use yaml.safe_load.',
    fields: { callee: /^yaml\.load$/ },
    except: { arguments: /Safe|BaseLoader/ },
  },
  {
    ...FORGEABLE_HASH,
    fields: { callee: /^hashlib\.(md5|sha1|md4)$/ },
    except: { arguments: /usedforsecurity\s*=\s*False/ },
  },
  {
    ...FORGEABLE_HASH,
    fields: { callee: /^hashlib\.new$/, arguments: WEAK_HASH },
  },
  {
    ...UNCHECKED_CERTIFICATES,
    kinds: ['keyword_argument'],
    fields: { key: /^verify$/, value: /^False$/ },
  },
  {
    ...REQUESTED_PATH,
    fields: { callee: /^(open|os\.path\.join|send_file|os\.(remove|unlink))$/, arguments: INPUT },
  },
  {
    rule: 'weak-random',
    severity: 'medium',
    message: 'random can be guessed; use secrets.',
    kinds: ['assignment'],
    fields: {
      key: /(token|secret|password|session_?id|nonce|salt|otp|api_?key)$/i,
      value: /\brandom\.(random|randint|choice|choices|randrange|getrandbits|sample)\(/,
    },
    except: { value: /SystemRandom/ },
  },
  {
    rule: 'temporary-name',
    severity: 'medium',
    message: 'mktemp gives a name that another process can take; use mkstemp.',
    fields: { callee: /^tempfile\.mktemp$/ },
  },
  {
    rule: 'debug-server',
    severity: 'medium',
    message: 'A server in debug mode runs code that a visitor sends.',
    fields: { callee: /\.run$/, arguments: /\bdebug\s*=\s*True\b/ },
  },
  ...secretsIn(['assignment', 'keyword_argument', 'pair'], ['string']),
]);

export const GO_RULES = rules('go', [
  {
    ...BUILT_COMMAND,
    fields: {
      callee: /^exec\.Command(Context)?$/,
      arguments: /["`](ba|z|da)?sh["`],\s*["`]-\w*c["`],\s*(fmt\.Sprintf|["`][^"`]*["`]\s*\+|\w+\s*\+)/,
    },
  },
  {
    ...BUILT_QUERY,
    fields: { callee: /\.(Query|QueryRow|Exec|Raw)(Context)?$/, arguments: /(fmt\.Sprintf\(|["`]\s*\+\s*\w)/ },
  },
  {
    ...FORGEABLE_HASH,
    fields: { callee: /^(md5|sha1)\.(New|Sum)$/ },
  },
  {
    ...UNCHECKED_CERTIFICATES,
    kinds: ['keyed_element'],
    fields: { text: /^InsecureSkipVerify:\s*true$/ },
  },
  {
    rule: 'weak-cipher',
    severity: 'high',
    message: 'DES and RC4 are broken; use AES-GCM.',
    fields: { callee: /^(des|rc4)\.New\w*$/ },
  },
  {
    ...REQUESTED_PATH,
    fields: {
      callee: /^(filepath|path)\.Join$|^os\.(Open|ReadFile|Remove)$/,
      arguments: /\br(eq|equest)?\.(URL\.Query\(\)|FormValue|URL\.Path|PathValue)/,
    },
  },
  ...secretsIn(
    ['short_var_declaration', 'var_spec', 'const_spec', 'keyed_element'],
    ['interpreted_string_literal', 'raw_string_literal'],
  ),
]);

export const RUST_RULES = rules('rust', [
  {
    ...BUILT_COMMAND,
    fields: { callee: /Command::new\(\s*"(ba|z|da)?sh"[\s\S]*"-c"[\s\S]*\.arg$/, arguments: /^\(\s*&?format!\(/ },
  },
  {
    ...BUILT_QUERY,
    fields: { callee: /(^|\.|::)(query|execute|query_as|prepare|raw_sql|sql_query)$/, arguments: /^\(\s*&?format!\(/ },
  },
  {
    ...UNCHECKED_CERTIFICATES,
    fields: { callee: /\.danger_accept_invalid_(certs|hostnames)$/, arguments: /true/ },
  },
  {
    ...FORGEABLE_HASH,
    fields: { callee: /^(md5::compute|(Md5|Sha1)::(new|digest))$/ },
  },
  ...secretsIn(['let_declaration', 'const_item', 'static_item'], ['string_literal']),
]);
