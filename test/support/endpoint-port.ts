/**
 * The port of a server that has said that it is up.
 *
 * @param name - as its line has it: `API`, `Agentk API`, `Kubernetes API`, `Observability`
 */
export function endpointPort(lines: readonly Record<string, unknown>[], name: string): number {
  const line = lines.find(({ msg }) => msg === `${name} endpoint is up`)
  return Number(String(line?.net_address).split(':').at(-1))
}
