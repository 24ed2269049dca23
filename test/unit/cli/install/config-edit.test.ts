import { parse as parseJsonc } from 'jsonc-parser';
import { parse as parseToml } from 'smol-toml';
import { describe, expect, test } from 'vitest';
import { withEntry } from '../../../../src/cli/install/config-edit.ts';

const toml = { format: 'toml', path: ['mcp_servers', 'ringfence'] } as const;
const json = { format: 'json', path: ['mcpServers', 'ringfence'] } as const;
const entry = { command: 'ringfence', args: ['mcp'] };

test.each([
  [json, '{"a":1}\n'],
  [toml, 'a = 1\n'],
])('a byte order mark stays where it is, in %j', (place, text) => {
  const edited = withEntry(`\ufeff${text}`, place, entry);
  expect(edited).toBe(`\ufeff${withEntry(text, place, entry)}`);
  expect(withEntry(`\ufeff${text}`, place, undefined)).toBe(`\ufeff${text}`);
});

describe('JSON', () => {
  test('comments, order, indentation and a trailing comma stay, and so does what a person added to the entry', () => {
    const text =
      '{\n    // theirs\n    "z": 1,\n    "mcpServers": {\n        "ringfence": { "env": {"A": "b"}, "command": "old" },\n    },\n}\n';
    const edited = withEntry(text, json, entry);
    expect(edited).toContain('    // theirs\n    "z": 1,\n');
    expect(parseJsonc(edited, [], { allowTrailingComma: true })).toEqual({
      z: 1,
      mcpServers: { ringfence: { env: { A: 'b' }, command: 'ringfence', args: ['mcp'] } },
    });
    expect(withEntry(edited, json, entry)).toBe(edited);
  });

  test('an empty file and none become a list with one entry, and taking out what is not there changes nothing', () => {
    expect(JSON.parse(withEntry('', json, entry))).toEqual({ mcpServers: { ringfence: entry } });
    expect(withEntry('{"a":1}', json, undefined)).toBe('{"a":1}');
    expect(JSON.parse(withEntry('{"mcpServers":{"ringfence":{},"b":{}}}', json, undefined))).toEqual({
      mcpServers: { b: {} },
    });
  });

  test.each([
    ['{"a": tru}', /not JSON: InvalidSymbol at character 6/],
    ['[]', /does not hold a JSON object/],
    ['{"mcpServers": []}', /mcpServers in the file is not an object/],
  ])('%s is refused', (text, why) => {
    expect(() => withEntry(text, json, entry)).toThrow(why);
  });
});

describe('TOML', () => {
  test('the table comes last, is replaced where it stands with its own keys kept, and goes alone', () => {
    const before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "o" # keep\n';
    const added = withEntry(before, toml, entry);
    expect(added.startsWith(before)).toBe(true);
    const theirs = added
      .replace('command = "ringfence"', 'command = "old"\nenabled = false')
      .concat('\n[mcp_servers.ringfence.env]\nA = "b"\n\n# about the next\n[zed]\n');
    const again = withEntry(theirs, toml, entry);
    expect(parseToml(again)).toEqual({
      model: 'x',
      mcp_servers: { other: { command: 'o' }, ringfence: { ...entry, enabled: false, env: { A: 'b' } } },
      zed: {},
    });
    expect(again).toContain('# about the next\n[zed]');
    expect(withEntry(withEntry(before, toml, entry), toml, undefined).trimEnd()).toBe(before.trimEnd());
  });

  test.each([
    ['mcp_servers.ringfence.command = "x"\n', /in another form/],
    ['[mcp_servers]\nringfence = { command = "x" }\n', /in another form/],
    ['a = \n', /not TOML/],
    ['note = """\n[mcp_servers.ringfence]\n"""\n', /by hand/],
  ])('%j is refused', (text, why) => {
    expect(() => withEntry(text, toml, entry)).toThrow(why);
  });
});
