import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StatusReport } from '../../src/kas/servers/ops-socket/status-report.ts'
import type { ReplicaPorts } from './ports.ts'
import { agent } from './settings.ts'

/** A replica as this machine sees it. */
interface Asked {
  readonly name: string
  /** undefined: it does not run */
  readonly pid: number | undefined
  readonly ports: ReplicaPorts
  /** path of its Unix socket */
  readonly socket: string
}

/** A replica with its own status. */
export interface ReplicaView extends Omit<Asked, 'socket'> {
  readonly ready: boolean
  /** roles of the agent's connections to it: `home`, `standby` */
  readonly roles: readonly string[]
  /** its rank for the agent, from 1; undefined: none */
  readonly rank: number | undefined
  /** number of living replicas that it knows, itself included */
  readonly members: number
}

/** limit of an answer; a frozen replica gives none. ms */
const answerTimeoutMs = 1000

/** Reads the status of each replica; one that does not answer is not ready, and has no roles. */
export async function viewReplicas(replicas: readonly Asked[]): Promise<ReplicaView[]> {
  return Promise.all(replicas.map(async (asked) => viewOf(asked, await statusOf(asked.socket))))
}

/** limit of the time in which agentk may still be connecting to its home; then its current places are shown. ms */
const placedTimeoutMs = 5000
const placedPollMs = 100

/** Reads the status as `viewReplicas` does, once agentk is at its home, and at no other replica with that role. */
export async function viewPlaced(replicas: readonly Asked[]): Promise<ReplicaView[]> {
  const end = performance.now() + placedTimeoutMs
  for (;;) {
    const views = await viewReplicas(replicas)
    const isPlaced = views.every(({ rank, roles }) => roles.includes('home') === (rank === 1))
    if (isPlaced || performance.now() > end) return views
    await sleep(placedPollMs)
  }
}

/** @param status - undefined: it does not answer */
export function viewOf({ name, pid, ports }: Omit<Asked, 'socket'>, status: StatusReport | undefined): ReplicaView {
  const [held] = status?.agents ?? []
  const own = held?.entries?.filter(({ replica, kind }) => replica === name && kind === 'connection') ?? []
  const place = held?.rank.indexOf(name) ?? -1
  return {
    name,
    pid,
    ports,
    ready: status !== undefined && status.replica.problem === undefined,
    roles: [...new Set(own.map(({ role }) => role))].sort(),
    rank: place < 0 ? undefined : place + 1,
    members: status?.members?.length ?? 0,
  }
}

/** Returns the names of the replicas with a connection of the agent, its homes first. */
export function holdersOf(views: readonly ReplicaView[]): string[] {
  const holders = views.filter(({ ready, roles }) => ready && roles.length > 0)
  const [homes, others] = [true, false].map((home) => holders.filter(({ roles }) => roles.includes('home') === home))
  return [...(homes ?? []), ...(others ?? [])].map(({ name }) => name)
}

/** Returns a line for each replica below headings: its address, the agent's roles there, its rank, and its members. */
export function tableOf(views: readonly ReplicaView[]): string[] {
  const rows = views.map(({ name, pid, ports, ready, roles, rank, members }) => [
    name,
    ready ? 'ready' : pid === undefined ? 'gone' : 'not ready',
    String(pid ?? '-'),
    `https://127.0.0.1:${ports.kubernetes}`,
    `http://127.0.0.1:${ports.ops}/metrics`,
    roles.join(', ') || '-',
    String(rank ?? '-'),
    String(members || '-'),
  ])
  const all = [['replica', 'is', 'pid', 'Kubernetes API', 'metrics', `agent ${agent.id}`, 'rank', 'knows'], ...rows]
  const width = (column: number) => Math.max(...all.map((row) => row[column]?.length ?? 0))
  return all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(width(column)))
      .join('  ')
      .trimEnd(),
  )
}

/** Returns the replica's status about itself and the agent; undefined: it does not answer. */
export function statusOf(socketPath: string): Promise<StatusReport | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(answerTimeoutMs)
    const asked = request({ socketPath, path: `/status?agent=${agent.id}`, agent: false, signal }, (response) => {
      text(response).then(
        (body) => resolve(response.statusCode === 200 ? (JSON.parse(body) as StatusReport) : undefined),
        () => resolve(undefined),
      )
    })
    asked.on('error', () => resolve(undefined))
    asked.end()
  })
}
