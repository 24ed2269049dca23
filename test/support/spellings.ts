/** The spellings in which serializers, servers and attackers write a value, by name. */
export function spellings(value: string): Record<string, string> {
  const each = (spell: (code: number) => string) =>
    Array.from(value)
      .map((it) => spell(it.codePointAt(0) as number))
      .join('');
  const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');
  const json = JSON.stringify(value).slice(1, -1);
  const bytes = Buffer.from(value);
  return {
    plain: value,
    JSON: json,
    'JSON of PHP': json.replaceAll('/', '\\/'),
    'JSON of Go': json.replaceAll('&', '\\u0026').replaceAll('<', '\\u003c'),
    'JSON of .NET': json.replaceAll('+', '\\u002B').replaceAll('&', '\\u0026'),
    'JSON with one letter escaped': json.replace(/[a-z]/, (it) => `\\u${hex(it.charCodeAt(0), 4)}`),
    'JSON with all letters escaped': each((it) => `\\u${hex(it, 4)}`),
    'JSON within JSON': JSON.stringify(JSON.stringify(value)).slice(1, -1),
    URL: encodeURIComponent(value),
    'URL in lower case': encodeURIComponent(value).replaceAll(/%../g, (it) => it.toLowerCase()),
    'URL of every byte': [...bytes].map((it) => `%${hex(it, 2)}`).join(''),
    'URL within URL': encodeURIComponent(encodeURIComponent(value)),
    form: new URLSearchParams({ a: value }).toString().slice(2),
    'HTML by name': value.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;'),
    'HTML by number': each((it) => `&#${it};`),
    'HTML by hex number': each((it) => `&#x${hex(it, 2)};`),
    'zero width within': each((it) => `${String.fromCodePoint(it)}\u200b`),
    'zero width within, escaped': each((it) => `${String.fromCodePoint(it)}\\u200b`),
    'lines within': value.replaceAll(/.{5}/g, '$&\r\n'),
    'UTF-16': Array.from(value).join('\0'),
    hex: bytes.toString('hex'),
    'hex in upper case': bytes.toString('hex').toUpperCase(),
    base64: Buffer.concat([Buffer.from('ab'), bytes, Buffer.from('tail')]).toString('base64'),
    'base64 for URLs': bytes.toString('base64url'),
    'base64 in JSON of PHP': bytes.toString('base64').replaceAll('/', '\\/'),
  };
}
