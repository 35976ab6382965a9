/**
 * What does a hop cost? A GET of 1 KiB and a body of 64 MiB go these ways, which alternate in one run:
 * - direct
 * - through bare bytes, the shortest program over the same hops
 * - through the replica of kas that holds the agent
 * - through another replica, and bare bytes likewise, with a stream for each call and with long-lived ones
 *
 * Then the body goes by each transport of agents, in both directions. Options: `--rounds N`, `--requests N`,
 * `--transports`: that last part alone.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ControlPlane } from '../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../dev/control-plane/kubeconfig.ts'
import { download, type LoadResult, load, type Target } from './hop/load.ts'
import { startOurs } from './hop/ours.ts'
import { compareTransports } from './hop/transports.ts'
import { readOptions, refuse } from './support/options.ts'
import { cpuSeconds, median, Programs } from './support/programs.ts'

const { rounds, requests, transports } = readOptions({ rounds: 5, requests: 1500 }, ['transports'])
const concurrencies = [1, 16, 64]
const assets = process.env.KUBEBUILDER_ASSETS
if (!assets) refuse('hop needs KUBEBUILDER_ASSETS, a folder with kube-apiserver and etcd')

const names = ['direct', 'bare', 'holder', 'bare other', 'bare lanes other', 'other'] as const
type Row = Record<string, number[]>
type Results = Record<string, Record<string, number>>
interface Way {
  readonly name: (typeof names)[number]
  readonly target: (path: string) => Target
  /** ids of the programs on the way; several replicas count as one */
  readonly pids: Record<string, number[]>
  readonly row: Row
}

/** Ways to compare, pair by pair, of one round each. */
const ratios = [
  ['holder', 'bare'],
  ['other', 'bare other'],
  ['other', 'holder'],
  ['bare other', 'bare'],
  ['bare lanes other', 'bare'],
  ['holder', 'direct'],
] as const

const folder = mkdtempSync(join(tmpdir(), 'bench-hop-'))
const programs = new Programs()
const cluster = new ControlPlane({ assets, parts: 'api' })
try {
  await cluster.start()
  const results = transports ? {} : await run()
  Object.assign(results, await compareTransports({ programs, cluster, folder, rounds }))
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  process.stdout.write(
    `${JSON.stringify({ bench: 'hop', commit, node: process.version, cpus: cpus().length, results })}\n`,
  )
} finally {
  programs.stop()
  await cluster.stop()
  rmSync(folder, { recursive: true, force: true })
}

async function run(): Promise<Results> {
  const data = { text: 'x'.repeat(1024) }
  await cluster.admin.create('/api/v1/namespaces/default/configmaps', { metadata: { name: 'one-kib' }, data })
  const small = '/api/v1/namespaces/default/configmaps/one-kib'
  const tls = { ca: cluster.caFile, cert: cluster.adminCertificateFile, key: cluster.adminKeyFile }
  const small1 = await waysTo(cluster.server, cluster.kubeconfig, tls, 'small')
  const files = {
    ca: cluster.caFile,
    cert: join(cluster.folder, 'serving.crt'),
    key: join(cluster.folder, 'serving.key'),
  }
  const body = await programs.start<{ port: number }>(join(import.meta.dirname, 'hop/large-body.ts'), [
    JSON.stringify(files),
  ])
  const bodyServer = `https://127.0.0.1:${body.said.port}`
  const bodyKubeconfig = join(folder, 'body.kubeconfig')
  const user = { certificateFile: tls.cert, keyFile: tls.key }
  writeFileSync(bodyKubeconfig, kubeconfigText({ server: bodyServer, caFile: tls.ca, user }))
  const large = await waysTo(bodyServer, bodyKubeconfig, tls, 'large')
  // compiled code is compared: these calls do not count
  for (const { target } of small1) await load(target(small), 16, requests)
  for (const { target } of large) await download(target('/64mib'))
  for (let round = 0; round < rounds; round++) {
    const turn = <Item>(items: Item[]) => (round % 2 ? items.toReversed() : items)
    for (const inFlight of concurrencies) for (const way of turn(small1)) await measure(way, small, inFlight)
    for (const way of turn(large)) add(way.row, 'MB/s', await download(way.target('/64mib')))
    process.stderr.write(`round ${round + 1} of ${rounds}\n`)
  }
  return report(small1, large)
}

async function waysTo(
  server: string,
  kubeconfig: string,
  tls: { ca: string; cert: string; key: string },
  name: string,
) {
  const here = (file: string) => join(import.meta.dirname, 'hop', file)
  type Ports = { agentsPort: number; replicasPort: number; httpPort: number }
  const bareKas = await programs.start<Ports>(here('bare-kas.ts'), [])
  const settings = JSON.stringify({ agentsPort: bareKas.said.agentsPort, apiServer: server, ...tls })
  const bareAgent = await programs.start(here('bare-agent.ts'), [settings])
  const startEntry = (lanes: boolean) =>
    programs.start<{ httpPort: number }>(here('bare-entry.ts'), [
      JSON.stringify({ replicasPort: bareKas.said.replicasPort, lanes }),
    ])
  const [bareEntry, laneEntry] = [await startEntry(false), await startEntry(true)]
  const ours = await startOurs(programs, join(folder, name), kubeconfig)
  const agentk = [ours.agentkPid]
  const bareTarget =
    ({ httpPort }: { httpPort: number }) =>
    (path: string): Target => ({ origin: `http://127.0.0.1:${httpPort}`, path, headers: {} })
  const ways: Way[] = [
    { name: 'direct', target: (path) => ({ origin: server, path, headers: {}, tls }), pids: {}, row: {} },
    {
      name: 'bare',
      target: bareTarget(bareKas.said),
      pids: { kas: [bareKas.pid], agentk: [bareAgent.pid] },
      row: {},
    },
    { name: 'holder', target: ours.holder.target, pids: { kas: [ours.holder.pid], agentk }, row: {} },
    {
      name: 'bare other',
      target: bareTarget(bareEntry.said),
      pids: { kas: [bareKas.pid, bareEntry.pid], agentk: [bareAgent.pid] },
      row: {},
    },
    {
      name: 'bare lanes other',
      target: bareTarget(laneEntry.said),
      pids: { kas: [bareKas.pid, laneEntry.pid], agentk: [bareAgent.pid] },
      row: {},
    },
    { name: 'other', target: ours.other.target, pids: { kas: [ours.holder.pid, ours.other.pid], agentk }, row: {} },
  ]
  return ways
}

async function measure({ row, target, pids }: Way, path: string, inFlight: number): Promise<void> {
  const cpu = (all: number[]) => all.reduce((sum, pid) => sum + cpuSeconds(pid), 0)
  const before = Object.entries(pids).map(([name, all]) => [name, all, cpu(all)] as const)
  const count = inFlight === 1 ? Math.ceil(requests / 3) : requests
  const result: LoadResult = await load(target(path), inFlight, count)
  add(row, `p50 ms at ${inFlight}`, result.p50Ms)
  add(row, `p99 ms at ${inFlight}`, result.p99Ms)
  add(row, `requests/s at ${inFlight}`, result.perSecond)
  for (const [name, all, seconds] of before) {
    add(row, `CPU s per 1,000 at ${inFlight}, ${name}`, ((cpu(all) - seconds) / count) * 1000)
  }
}

function add(row: Row, name: string, value: number): void {
  row[name] ??= []
  row[name].push(value)
}

/** Prints one line a figure: medians, the spread over the rounds, and ratios. */
function report(...groups: Way[][]): Results {
  const results: Results = {}
  const print = (cells: string[]) =>
    process.stdout.write(`${cells.map((cell, i) => cell.padEnd(i === 0 ? 34 : 26)).join('')}\n`)
  print(['median [min to max]', ...names, ...ratios.map((pair) => pair.join(' / '))])
  for (const ways of groups) {
    const rowOf = (name: Way['name']) => ways.find((way) => way.name === name)?.row ?? {}
    for (const figure of Object.keys(rowOf('holder'))) {
      const compared = ratios.map(([left, right]) => ratio(rowOf(left)[figure], rowOf(right)[figure]))
      print([figure, ...names.map((name) => shown(rowOf(name)[figure])), ...compared.map(short)])
      const medians = names.flatMap((name) => {
        const values = rowOf(name)[figure]
        return values ? [[name, median(values)] as const] : []
      })
      const told = ratios.flatMap(([left, right], i) =>
        compared[i] ? [[`${left}/${right}`, compared[i]] as const] : [],
      )
      results[figure] = Object.fromEntries([...medians, ...told])
    }
  }
  return results
}

function ratio(left: number[] | undefined, right: number[] | undefined): number | undefined {
  return left && right ? median(left.map((value, i) => value / (right[i] as number))) : undefined
}

function shown(values: number[] | undefined): string {
  return values ? `${short(median(values))} [${short(Math.min(...values))} to ${short(Math.max(...values))}]` : ''
}

function short(value: number | undefined): string {
  return value === undefined ? '' : value.toPrecision(3)
}
