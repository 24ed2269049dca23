/** `tools.http_request` is one request, judged by the policy; what it gives is an answer, whatever its status. */
export async function latest({ name, registry }, { tools }) {
  const url = `${registry}/${name.replace('/', '%2F')}/latest`;
  const { status, body, truncated } = await tools.http_request({ url, headers: { accept: 'application/json' } });
  if (status === 404) throw new Error(`${registry} knows no package ${name}`);
  if (status !== 200 || truncated) throw new Error(`${registry} answered with ${status}, ${body.length} characters`);
  const { version, license, dependencies = {} } = JSON.parse(body);
  return { version, ...(typeof license === 'string' && { license }), dependencies: Object.keys(dependencies).sort() };
}
