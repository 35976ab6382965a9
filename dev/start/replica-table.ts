import { get } from 'node:http'
import { text } from 'node:stream/consumers'
import { Ring } from '../../src/ring/ring.ts'
import type { ReplicaPorts } from './ports.ts'
import { agent } from './settings.ts'

/** What one replica is, and what it says of itself. */
export interface ReplicaView {
  readonly name: string
  /** undefined: it does not run */
  readonly pid: number | undefined
  readonly ports: ReplicaPorts
  readonly ready: boolean
  /** agents that are connected to it */
  readonly agents: number
  /** replicas that it knows to live, itself included */
  readonly members: number
}

interface Asked {
  readonly name: string
  readonly pid: number | undefined
  readonly ports: ReplicaPorts
}

/** a frozen replica does not answer */
const answerTimeoutMs = 500

/** Asks each replica; one that does not answer is not ready, and holds nothing that it could tell. */
export async function viewReplicas(replicas: readonly Asked[]): Promise<ReplicaView[]> {
  return Promise.all(
    replicas.map(async ({ name, pid, ports }) => {
      const at = `http://127.0.0.1:${ports.ops}`
      const [ready, metrics] = await Promise.all([ask(`${at}/readiness`), ask(`${at}/metrics`)])
      const value = (metric: string) => Number(new RegExp(`^${metric} (\\d+)$`, 'm').exec(metrics ?? '')?.[1] ?? 0)
      return {
        name,
        pid,
        ports,
        ready: ready !== undefined,
        agents: value('connected_agents_count'),
        members: value('kas_members'),
      }
    }),
  )
}

/** Names of those that hold a connection of the agent. */
export function holdersOf(views: readonly ReplicaView[]): string[] {
  return views.filter(({ ready, agents }) => ready && agents > 0).map(({ name }) => name)
}

/** A line for each replica under one of headings: where it is, who holds the agent, its rank for it, whom it knows. */
export function tableOf(views: readonly ReplicaView[]): string[] {
  const rank = Ring.of(views.filter(({ ready }) => ready).map(({ name }) => name)).rank(String(agent.id))
  const rows = views.map((view) => [
    view.name,
    view.ready ? 'ready' : view.pid === undefined ? 'gone' : 'not ready',
    view.pid === undefined ? '-' : String(view.pid),
    `https://127.0.0.1:${view.ports.kubernetes}`,
    `http://127.0.0.1:${view.ports.ops}/metrics`,
    view.agents > 0 ? 'holder' : '-',
    rank.includes(view.name) ? String(rank.indexOf(view.name) + 1) : '-',
    view.ready ? String(view.members) : '-',
  ])
  const head = ['replica', 'is', 'pid', 'Kubernetes API', 'metrics', `agent ${agent.id}`, 'rank', 'knows']
  const widths = head.map((title, column) =>
    Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0), title.length),
  )
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [head, ...rows].map(line)
}

/** @returns the body of an answer 200 */
function ask(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const asked = get(url, { agent: false, signal: AbortSignal.timeout(answerTimeoutMs) }, (response) => {
      text(response).then(
        (body) => resolve(response.statusCode === 200 ? body : undefined),
        () => resolve(undefined),
      )
    })
    asked.on('error', () => resolve(undefined))
  })
}
