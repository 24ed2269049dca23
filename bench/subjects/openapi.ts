import { defaultLimits as limits } from '../../src/base/limits.ts';
import { writeConnector } from '../../src/services/connectors/openapi/connector-text.ts';
import { readOpenApi } from '../../src/services/connectors/openapi/document.ts';
import { defineBench } from '../bench.ts';
import { openApiDocument } from '../floors/openapi.ts';
import { inTurns } from '../measure.ts';

const MB = 1_000_000;
const label = 'large.json';

export default defineBench({
  title: 'OpenAPI',
  question: 'What does a connector file of a large OpenAPI document cost?',
  async run(bench) {
    const text = openApiDocument(bench.size(MB / 4, 13 * MB));
    const write = (only: string[]) => writeConnector(readOpenApi(text, label, limits), { only, label, limits });
    const ten = Array.from({ length: 10 }, (_, at) => `things/get-${at}`);
    bench.times(
      await inTurns(
        {
          'JSON.parse': () => JSON.parse(text) as unknown,
          'a connector of ten operations': () => write(ten),
          'a connector of as many operations as fit': () => write([]),
        },
        { rounds: bench.size(2, 7), times: 1 },
      ),
      { over: 'JSON.parse', goals: { 'a connector of as many operations as fit': { most: 300 } } },
    );
  },
});
