import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import type { Programs } from '../../../dev/start/local-programs.ts'
import { LocalStack } from '../../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../../dev/start/ports.ts'
import { holdersOf, viewReplicas } from '../../../dev/start/replica-table.ts'
import { eventually } from '../../support/eventually.ts'
import { httpsGet } from '../../support/https-get.ts'
import { type Extent, playCommands } from './commands.ts'

export interface ClusterOptions {
  readonly programs: Programs
  /** version as `--version` prints it after the name */
  readonly version: string
  /** an empty one, for the state of the stack */
  readonly folder: string
  readonly extent: Extent
}

/** time limit for a change of the directory file, or the loss of a replica, on a busy machine */
const soon = { timeoutMs: 30_000 }

/**
 * Plays three replicas and one agentk before the embedded API double. It runs subcommands, a call through a replica
 * that does not hold the agent, and a call after the holder was killed.
 */
export async function playCluster(t: Test, { programs, version, folder, extent }: ClusterOptions): Promise<void> {
  const ports = await anyPorts(replicaCount)
  const stack = new LocalStack({ folder, ports, programs, kubeconfig: undefined, assets: undefined })
  t.teardown(() => stack.stop(AbortSignal.abort()))
  await stack.start()
  const [first] = stack.replicas
  const server = `https://127.0.0.1:${ports.kubernetes}`
  const credential = await playCommands(t, { programs, version, folder, socket: first?.socket ?? '', server, extent })

  const holder = async () => {
    const views = await viewReplicas(stack.replicas.filter(({ pid }) => pid !== undefined))
    const [name] = holdersOf(views)
    if (name === undefined) throw new Error('no replica holds the agent')
    return name
  }
  const namespaces = async (port: number) => {
    const { authority: ca } = stack.access
    const { status, body } = await httpsGet(`https://127.0.0.1:${port}/api/v1/namespaces`, { ca, token: credential })
    if (status !== 200) throw new Error(`${status}: ${body}`)
    return JSON.parse(body) as { kind: string }
  }
  const held = await eventually(holder, soon)
  const others = stack.replicas.filter(({ name }) => name !== held)
  t.equal(others.length, 2)
  for (const { name, ports } of others) {
    t.match(await eventually(() => namespaces(ports.kubernetes), soon), { kind: 'NamespaceList' }, `through ${name}`)
  }
  const lost = stack.replicas.find(({ name }) => name === held)
  lost?.signal('SIGKILL')
  await lost?.exited
  for (const { name, ports } of others) {
    const answered = await eventually(() => namespaces(ports.kubernetes), soon)
    t.match(answered, { kind: 'NamespaceList' }, `through ${name}, without ${held}`)
  }
  t.not(await eventually(holder, soon), held)
  const logs = await Promise.all(stack.replicas.map(({ log }) => readFile(log, 'utf8')))
  for (const log of logs) t.notMatch(log, /ERR_MODULE_NOT_FOUND|Cannot find (package|module)/)
}
