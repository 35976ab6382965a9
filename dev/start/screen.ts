import { join } from 'node:path'
import type { Cluster } from './cluster.ts'
import { agentAddress } from './local-programs.ts'
import type { ChosenPorts } from './ports.ts'
import { agent, files, replicaFiles, replicaName } from './settings.ts'

export interface ScreenInputs {
  /** as it is typed: relative to the project's folder */
  readonly folder: string
  /** 1, 2, ...: the first one needs no mention */
  readonly number: number
  readonly chosen: ChosenPorts
  readonly cluster: Pick<Cluster, 'kind' | 'description'>
  /** which replica is where, a line each */
  readonly table: readonly string[]
  /** curl would go through a proxy */
  readonly proxied: boolean
}

const namedPod = '/api/v1/namespaces/demo/pods/clock/log?follow=true&tailLines=3'
const watchedNamespaces = '/api/v1/namespaces?watch=true'

/** Lines that work as they stand in a shell in the project's folder; the last one goes on until Ctrl-C. */
export function linesToTry({ folder, number, chosen, cluster, proxied }: ScreenInputs): string[] {
  const server = `https://127.0.0.1:${chosen.ports.kubernetes}`
  const credentials = `--cacert ${join(folder, files.authority)} -H @${join(folder, files.userHeader)}`
  const curl = (options: string) => `curl ${options}${proxied ? " --noproxy '*'" : ''} ${credentials}`
  const run = number === 1 ? '' : `KAS_RUN=${number} `
  return [
    `${run}npm run -s kubectl -- get pods -A`,
    `npm run -s kas -- tree --kubeconfig ${join(folder, files.kubeconfig)}`,
    `${curl('-sS')} ${server}/api/v1/namespaces`,
    `${curl('-sSN')} '${server}${cluster.kind === 'double' ? namedPod : watchedNamespaces}'`,
  ]
}

/** What runs where, and what to try. */
export function screenOf(inputs: ScreenInputs): string {
  const { folder, chosen, cluster, table } = inputs
  const { ports, taken } = chosen
  const pad = ' '.repeat(11)
  const { configuration, log, socket } = replicaFiles(replicaName(0))
  const lines = [
    `kas runs, as ${ports.replicas.length} replicas behind a balancer. Ctrl-C stops everything.`,
    '',
    `  cluster  ${cluster.description}`,
    ...(cluster.kind === 'double' ? [`${pad}(a cluster of yours: npm start -- --kubeconfig FILE)`] : []),
    `  agentk   agent ${agent.id} "${agent.name}", dials kas at ${agentAddress(ports)}, the balancer`,
    `  kas      https://127.0.0.1:${ports.kubernetes}, the balancer: the cluster's API, through the agent, for kubectl, CI, browsers`,
    `  files    ${folder}/: ${log} and so on, ${files.agentkLog}, ${configuration}, ${files.directory},`,
    `${pad}${files.repository} (push to .gitlab/agents/${agent.name}/config.yaml in it: who may use the agent)`,
    ...(taken
      ? [`  ports    ${taken} was taken, so these start at ${chosen.base} (--port-base N chooses others)`]
      : []),
    '',
    ...table.map((line) => `  ${line}`),
    `  (what a replica knows: npm run -s kas -- status --socket ${join(folder, socket)})`,
    '',
    'To try in another terminal, in this folder:',
    '',
    ...linesToTry(inputs).map((line) => `  ${line}`),
    '',
  ]
  return `${lines.join('\n')}\n`
}
