/**
 * A body of 64 MiB through kas by each transport on 8150, in both directions, text and noise; all alternate in one run.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { addTo, type Row } from '../support/figures.ts'
import { cpuSeconds, median, type Programs } from '../support/programs.ts'
import { noise, text } from './contents.ts'
import { download, type Target, upload } from './load.ts'
import { type AgentTransport, startOurs } from './ours.ts'

interface Components {
  readonly programs: Programs
  readonly cluster: ControlPlane
  readonly folder: string
  readonly rounds: number
}

interface Way {
  readonly name: string
  readonly target: (path: string) => Target
  /** ids of the programs on the way; several replicas count as one */
  readonly pids: Readonly<Record<string, readonly number[]>>
  readonly row: Row
}

const schemes = ['grpc', 'grpcs', 'ws', 'wss'] as const
const replicas = ['holder', 'other'] as const

/** Ratios of a WebSocket to gRPC on the same kind of connection, pair by pair of one round each. */
const ratios = (['wss/grpcs', 'ws/grpc'] as const).flatMap((pair) =>
  replicas.map((replica) => ({ name: `${pair} ${replica}`, sides: pair.split('/').map((one) => `${one} ${replica}`) })),
)

const moves: readonly (readonly [name: string, move: (to: Way['target']) => Promise<number>])[] = [
  ['down, text', (to) => download(to('/64mib-text'))],
  ['down, noise', (to) => download(to('/64mib'))],
  ['up, text', (to) => upload(to('/'), text)],
  ['up, noise', (to) => upload(to('/'), noise)],
]

/** @returns the medians of the columns and their ratios, by figure; prints them too */
export async function compareTransports(components: Components): Promise<Record<string, Record<string, number>>> {
  const ways = await startWays(components)
  // compiled code is compared: these calls do not count
  for (const { target } of ways) for (const [, move] of moves) await move(target)
  for (let round = 0; round < components.rounds; round++) {
    for (const [name, move] of moves) {
      for (const way of round % 2 ? ways.toReversed() : ways) await measure(way, name, move)
    }
    process.stderr.write(`transports: round ${round + 1} of ${components.rounds}\n`)
  }
  return report(ways)
}

async function startWays({ programs, cluster, folder }: Components): Promise<Way[]> {
  const serving = {
    ca: cluster.caFile,
    cert: join(cluster.folder, 'serving.crt'),
    key: join(cluster.folder, 'serving.key'),
  }
  const program = join(import.meta.dirname, 'large-body.ts')
  const { said } = await programs.start<{ port: number }>(program, [JSON.stringify(serving)])
  const kubeconfig = join(folder, 'transports.kubeconfig')
  const user = { certificateFile: cluster.adminCertificateFile, keyFile: cluster.adminKeyFile }
  const server = `https://127.0.0.1:${said.port}`
  writeFileSync(kubeconfig, kubeconfigText({ server, caFile: cluster.caFile, user }))
  const ways: Way[] = []
  for (const scheme of schemes) {
    const secured = scheme === 'grpcs' || scheme === 'wss'
    const transport: AgentTransport = secured ? { scheme, tls: serving } : { scheme }
    const { holder, other, agentkPid } = await startOurs(programs, join(folder, scheme), kubeconfig, transport)
    const agentk = [agentkPid]
    ways.push(
      { name: `${scheme} holder`, target: holder.target, pids: { kas: [holder.pid], agentk }, row: {} },
      { name: `${scheme} other`, target: other.target, pids: { kas: [holder.pid, other.pid], agentk }, row: {} },
    )
  }
  return ways
}

async function measure({ row, target, pids }: Way, name: string, move: (typeof moves)[number][1]): Promise<void> {
  const cpuOf = () =>
    Object.entries(pids).map(([program, all]) => [program, all.reduce((sum, pid) => sum + cpuSeconds(pid), 0)] as const)
  const before = cpuOf()
  addTo(row, { [`MB/s ${name}`]: await move(target) })
  for (const [i, [program, seconds]] of cpuOf().entries()) {
    addTo(row, { [`CPU s ${name}, ${program}`]: seconds - (before[i]?.[1] ?? 0) })
  }
}

function report(ways: readonly Way[]): Record<string, Record<string, number>> {
  const print = (cells: readonly string[]) =>
    process.stdout.write(`${cells.map((cell, i) => cell.padEnd(i === 0 ? 26 : 22)).join('')}\n`)
  const valuesOf = (name: string | undefined, figure: string) =>
    ways.find((way) => way.name === name)?.row[figure] ?? []
  print(['median [min to max]', ...ways.map(({ name }) => name), ...ratios.map(({ name }) => name)])
  const results: Record<string, Record<string, number>> = {}
  for (const figure of Object.keys(ways[0]?.row ?? {})) {
    const compared = ratios.map(({ sides: [left, right] }) => {
      const below = valuesOf(right, figure)
      return median(valuesOf(left, figure).map((value, i) => value / (below[i] as number)))
    })
    const all = ways.map(({ row }) => row[figure] as number[])
    print([figure, ...all.map(shown), ...compared.map(short)])
    results[`64 MiB, ${figure}`] = Object.fromEntries([
      ...ways.map(({ name }, i) => [name, median(all[i] as number[])]),
      ...ratios.map(({ name }, i) => [name, compared[i]]),
    ])
  }
  return results
}

const short = (value: number) => value.toPrecision(3)
const shown = (values: readonly number[]) =>
  `${short(median(values))} [${short(Math.min(...values))} to ${short(Math.max(...values))}]`
