/** Tests the promises of every tool, built-in or a plugin's, through a real daemon that allows it. */
import { describe, expect, test } from 'vitest';
import type * as z from 'zod';
import type { Client } from '../../src/client.ts';
import { toFormat, toToolInfo } from '../../src/tools/registry.ts';
import type { Tool } from '../../src/tools/tool.ts';

interface Place {
  client(): Client;
  /** Creates what the examples need in addition. */
  prepare?(): void;
}

/** Declares the tests of one tool. */
export function toolPromises(tool: Tool, { client, prepare }: Place): void {
  const { name } = tool;
  describe(name, () => {
    test.each(tool.examples.map((it) => [JSON.stringify(it.input), it] as const))(
      'does what its example %s says',
      async (_, example) => {
        prepare?.();
        const result = await client().call(name, example.input);
        if ('error' in example) expect(result).toMatchObject({ success: false, error: { code: example.error } });
        else expect(result).toMatchObject({ success: true, data: example.output });
        if (result.success) expect(tool.output.safeParse(result.data).error).toBeUndefined();
      },
    );

    test('refuses a parameter that it does not have, by name, before it runs', async () => {
      const result = await client().call(name, { ...tool.examples[0]?.input, pth: 1 });
      expect(result).toMatchObject({ success: false, tool: name, error: { code: 'INPUT_INVALID', layer: 'validate' } });
      expect(result.success || result.error.message).toMatch(/pth: no such parameter/);
    });

    test('describes every parameter and every alias parameter', () => {
      for (const { parameters, schema } of [
        { parameters: tool.input.shape, schema: tool.input },
        ...tool.aliases.map((it) => ({ parameters: it.input.shape, schema: it.input })),
      ]) {
        expect(schema.def.catchall?._zod.def.type).toBe('never');
        for (const [key, value] of Object.entries(parameters))
          expect(
            (value as z.ZodType).description ?? (value as { unwrap?(): z.ZodType }).unwrap?.().description,
            key,
          ).toBeTruthy();
      }
    });

    test('is told in all five formats as a strict object schema', () => {
      const info = toToolInfo(tool, 'allow');
      expect(info.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      for (const format of ['ringfence', 'mcp', 'openai', 'anthropic'] as const)
        expect(toFormat(info, format)).toMatchObject({ name });
      expect(toFormat(info, 'openai-chat')).toMatchObject({ type: 'function', function: { name } });
    });

    test('says what it can do, each thing once, and what it usually follows', async () => {
      const listed = (await client().tools()).find((it) => it.name === name);
      expect(listed?.capabilities.length).toBeGreaterThan(0);
      for (const { action, description } of listed?.capabilities ?? []) {
        expect(action).toMatch(/^[a-z][\w-]*$/);
        expect(description.length).toBeGreaterThan(2);
      }
      const actions = listed?.capabilities.map((it) => it.action);
      expect(new Set(actions).size).toBe(actions?.length);
      expect(listed?.dependencies).toEqual(tool.dependencies ?? []);
    });

    test('has annotations that say what its tier says', () => {
      const { annotations, tier } = toToolInfo(tool, 'allow');
      expect(annotations.readOnlyHint).toBe(tier === 'read_only');
      if (tier === 'read_only') expect(annotations.destructiveHint).toBe(false);
      if (tier === 'execute') expect(annotations).toMatchObject({ openWorldHint: true, destructiveHint: true });
    });

    test('answers by each alias under its own name', async () => {
      for (const alias of tool.aliases) {
        const result = await client().call(alias.name, { no: 'such' });
        expect(result.tool).toBe(name);
      }
    });

    test('declares effects of its input', () => {
      const valid = (tool.examples.find((it) => 'output' in it) ?? tool.examples[0])?.input;
      // State in the gateway is no file, a list of tools or of running programs neither, and a program's calls have effects of their own.
      if (!tool.state && !tool.ofTools && !tool.keeps && !tool.isolated)
        expect(tool.effects(tool.input.parse(valid) as never).length).toBeGreaterThan(0);
    });
  });
}
