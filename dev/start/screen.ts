import { join } from 'node:path'
import { brokenWorkload } from '../broken-workload.ts'
import type { Cluster } from './cluster.ts'
import type { Example } from './example-repository.ts'
import { agentAddress } from './local-programs.ts'
import type { ChosenPorts } from './ports.ts'
import { agent, files, replicaFiles, replicaName } from './settings.ts'

export interface ScreenInputs {
  /** state folder as a user types it: relative to the project's folder */
  readonly folder: string
  /** 1, 2, ...: the first one needs no mention */
  readonly number: number
  readonly chosen: ChosenPorts
  readonly cluster: Pick<Cluster, 'kind' | 'description' | 'note'>
  /** example that the cluster follows; undefined: none */
  readonly example: Example | undefined
  /** the replicas with their ports, a line each */
  readonly table: readonly string[]
  /** true if curl would use a proxy */
  readonly proxied: boolean
}

const namedPod = '/api/v1/namespaces/demo/pods/clock/log?follow=true&tailLines=3'
const watchedNamespaces = '/api/v1/namespaces?watch=true'

const brokenText = `Deployment ${brokenWorkload.name} in ${brokenWorkload.namespace} is broken on purpose: kas tree says why`

/** The object that the line for a push adds, with a text to change. */
const pushed = '{apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: shop}, data: {text: hello}}'

/** Returns lines that work unchanged in a shell in the project's folder; the last one goes on until Ctrl-C. */
export function linesToTry({ folder, number, chosen, cluster, example, proxied }: ScreenInputs): string[] {
  const server = `https://127.0.0.1:${chosen.ports.kubernetes}`
  const credentials = `--cacert ${join(folder, files.authority)} -H @${join(folder, files.userHeader)}`
  const curl = (options: string) => `curl ${options}${proxied ? " --noproxy '*'" : ''} ${credentials}`
  const run = number === 1 ? '' : `KAS_RUN=${number} `
  const kas = (command: string) => `npm run -s kas -- ${command} --kubeconfig ${join(folder, files.kubeconfig)}`
  const { namespace, name } = brokenWorkload
  const clone = join(folder, files.clone)
  return [
    `${run}npm run -s kubectl -- get pods -A`,
    kas('tree'),
    ...(cluster.kind === 'named' ? [] : [kas(`tree deploy/${name} -n ${namespace}`)]),
    `${curl('-sS')} ${server}/api/v1/namespaces`,
    ...(example
      ? [
          `(cd ${clone} && echo '${pushed}' > manifests/hello.yaml && git add . && git commit -qm hello && git push -q)`,
          kas(`gitops status --commit $(git -C ${clone} rev-parse HEAD) --wait 1m`),
          `${curl('-sS')} ${server}/api/v1/namespaces/shop/configmaps/hello`,
        ]
      : []),
    `${curl('-sSN')} '${server}${cluster.kind === 'double' ? namedPod : watchedNamespaces}'`,
  ]
}

function manifestLines({ leftOut }: Example, folder: string): string[] {
  const line = `  gitops   what is pushed below manifests/ of ${files.repository} comes to the cluster; a clone: ${join(folder, files.clone)}`
  if (leftOut.length === 0) return [line]
  return [line, `           (the double runs nothing, so the clone lacks ${leftOut.join(', ')} of the example)`]
}

/** Returns the addresses of all parts, and lines to try. */
export function screenOf(inputs: ScreenInputs): string {
  const { folder, chosen, cluster, example, table } = inputs
  const { ports, taken } = chosen
  const pad = ' '.repeat(11)
  const { configuration, log, socket } = replicaFiles(replicaName(0))
  const lines = [
    `kas runs, as ${ports.replicas.length} replicas behind a balancer. Ctrl-C stops everything.`,
    '',
    `  cluster  ${cluster.description}`,
    ...(cluster.note ? [`${pad}(${cluster.note})`] : []),
    ...(cluster.kind === 'double' ? [`${pad}(a cluster of yours: npm start -- --kubeconfig FILE)`] : []),
    ...(cluster.kind === 'named' ? [] : [`${pad}${brokenText}`]),
    `  agentk   agent ${agent.id} "${agent.name}", dials kas at ${agentAddress(ports)}, the balancer`,
    `  kas      https://127.0.0.1:${ports.kubernetes}, the balancer: the cluster's API, through the agent, for kubectl, CI, browsers`,
    `  files    ${folder}/: ${log} and so on, ${files.agentkLog}, ${configuration}, ${files.directory},`,
    `${pad}${files.repository} (push to .gitlab/agents/${agent.name}/config.yaml in it: who may use the agent)`,
    ...(example ? manifestLines(example, folder) : []),
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
